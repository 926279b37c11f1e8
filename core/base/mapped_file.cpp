// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/mapped_file.h"

#include "core/base/bytes.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace headroom {
namespace {

/// Returns what a path is that is no regular file.
const char* kindOf(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "a folder";
    case S_IFIFO:
        return "a pipe";
    case S_IFSOCK:
        return "a socket";
    case S_IFCHR:
    case S_IFBLK:
        return "a device";
    default:
        return "no file";
    }
}

} // namespace

Result<InputFile> InputFile::open(const std::filesystem::path& path, std::size_t most)
{
    InputFile input(path, most);
    struct stat status = {};
    // Before the file is opened: opening a device may do something. O_NONBLOCK: nor does a pipe that came since wait.
    if (::stat(path.c_str(), &status) != 0)
        return input.failure(errno);
    const auto irregular = [&] {
        return badInput("cannot open " + path.string() + ": it is not a regular file but " + kindOf(status.st_mode));
    };
    if (!S_ISREG(status.st_mode))
        return irregular();
    input.file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (input.file_ < 0 || ::fstat(input.file_, &status) != 0)
        return input.failure(errno);
    if (!S_ISREG(status.st_mode))
        return irregular();
    input.size_ = static_cast<std::size_t>(status.st_size);
    if (input.size_ > most)
        return input.tooLarge();
    return input;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_))
    , most_(other.most_)
    , size_(other.size_)
    , file_(std::exchange(other.file_, -1))
{
}

InputFile::~InputFile()
{
    if (file_ >= 0)
        ::close(file_);
}

Error InputFile::failure(int code) const
{
    return badInput("cannot open " + path_.string() + ": " + std::generic_category().message(code));
}

Error InputFile::tooLarge() const
{
    return badInput("cannot open " + path_.string() + ": it has more than " + formatBytes(static_cast<Bytes>(most_), 0)
                    + ", which no file of its kind has");
}

Result<std::string> InputFile::text() const
{
    std::string text;
    text.reserve(size_);
    std::array<char, 65536> piece{};
    // Files of /proc state no size, and a file may grow.
    while (true) {
        const ssize_t count = ::read(file_, piece.data(), piece.size());
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return failure(errno);
        if (count == 0)
            return text;
        if (text.size() + static_cast<std::size_t>(count) > most_)
            return tooLarge();
        text.append(piece.data(), static_cast<std::size_t>(count));
    }
}

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path)
{
    const auto file = InputFile::open(path);
    if (!file)
        return file.error();
    if (file->size() == 0)
        return std::shared_ptr<const MappedFile>(new MappedFile({}));
    const void* address = ::mmap(nullptr, file->size(), PROT_READ, MAP_PRIVATE, file->descriptor(), 0);
    if (address == MAP_FAILED)
        return badInput("cannot open " + path.string() + ": " + std::generic_category().message(errno));
    return std::shared_ptr<const MappedFile>(
        new MappedFile(std::span(static_cast<const std::byte*>(address), file->size())));
}

void MappedFile::readAhead() const noexcept
{
    if (!bytes_.empty())
        ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_SEQUENTIAL);
}

void MappedFile::letGo(std::size_t end) const noexcept
{
    constexpr std::size_t page = std::size_t{1} << 16; // the largest page size of Linux
    if (const std::size_t whole = std::min(end, bytes_.size()) / page * page; whole > 0)
        ::madvise(const_cast<std::byte*>(bytes_.data()), whole, MADV_DONTNEED);
}

MappedFile::~MappedFile()
{
    if (!bytes_.empty())
        ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

} // namespace headroom
