// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/mapped_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace headroom {

namespace {

Error cannotOpen(const std::filesystem::path& path, int code)
{
    return badInput("cannot open " + path.string() + ": " + std::generic_category().message(code));
}

/// Maps an open file, which may be closed afterwards. `path` is used in messages.
Result<std::span<const std::byte>> mapped(int file, const std::filesystem::path& path)
{
    struct stat status = {};
    if (::fstat(file, &status) != 0)
        return cannotOpen(path, errno);
    if (!S_ISREG(status.st_mode))
        return badInput("cannot open " + path.string() + ": it is not a regular file");
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size == 0)
        return std::span<const std::byte>();
    const void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (address == MAP_FAILED)
        return cannotOpen(path, errno);
    return std::span(static_cast<const std::byte*>(address), size);
}

} // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path)
{
    // Without O_NONBLOCK, opening a named pipe would wait for a writer.
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return cannotOpen(path, errno);
    const auto bytes = mapped(file, path);
    ::close(file);
    if (!bytes)
        return bytes.error();
    return std::shared_ptr<const MappedFile>(new MappedFile(*bytes));
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
