// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/atomic_write.h"

#include "core/base/try.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <random>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace headroom {

namespace {

constexpr mode_t everyone = 0666; // the kernel subtracts the umask

/// Returns the path of an open file in /proc.
std::string linkTo(int file)
{
    return "/proc/self/fd/" + std::to_string(file);
}

/// Returns a random name for a hidden file in the folder of `path`.
std::string temporaryName(const std::filesystem::path& path)
{
    std::random_device random;
    return (path.parent_path() / ("." + path.filename().string() + "." + std::to_string(random()) + ".new")).string();
}

/// Syncs the folder of `file`, so that a new name survives a loss of power. Errors are ignored: some file systems
/// cannot sync a folder.
void syncFolder(const std::filesystem::path& file)
{
    const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
    const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle >= 0) {
        ::fsync(handle);
        ::close(handle);
    }
}

} // namespace

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path)
{
    AtomicFile result;
    result.path_ = path;
    std::error_code ignored;
    if (std::filesystem::is_symlink(path, ignored)) {
        // The file behind a link is replaced, not the link.
        const auto target = std::filesystem::canonical(path, ignored);
        if (!target.empty())
            result.path_ = target;
    }
    struct stat status = {};
    const bool existed = ::stat(result.path_.c_str(), &status) == 0;
    if (existed && !S_ISREG(status.st_mode))
        return badInput("cannot write " + path.string() + ": not a regular file");

    result.open();
    if (result.file_ < 0)
        return result.failure(errno);
    if (existed && ::fchmod(result.file_, status.st_mode & everyone) != 0)
        return result.failure(errno);
    return result;
}

/// Opens a file without a name where the file system supports this: the file vanishes if the process is killed.
void AtomicFile::open()
{
    const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
    file_ = ::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, everyone);
    if (file_ >= 0 && ::access(linkTo(file_).c_str(), F_OK) != 0)
        ::close(std::exchange(file_, -1)); // without /proc the file could not be given a name
    if (file_ >= 0)
        return;
    do {
        temporary_ = temporaryName(path_);
        file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, everyone);
    } while (file_ < 0 && errno == EEXIST);
    named_ = file_ >= 0;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_))
    , temporary_(std::move(other.temporary_))
    , named_(std::exchange(other.named_, false))
    , file_(std::exchange(other.file_, -1))
{
}

AtomicFile::~AtomicFile()
{
    if (file_ >= 0)
        ::close(file_);
    if (named_)
        ::unlink(temporary_.c_str());
}

Error AtomicFile::failure(int code) const
{
    return badInput("cannot write " + path_.string() + ": " + std::generic_category().message(code));
}

Status AtomicFile::write(std::span<const std::byte> bytes)
{
    while (!bytes.empty()) {
        const ssize_t written = ::write(file_, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return failure(errno);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
}

Status AtomicFile::name()
{
    while (!named_) {
        temporary_ = temporaryName(path_);
        named_ = ::linkat(AT_FDCWD, linkTo(file_).c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) == 0;
        if (!named_ && errno != EEXIST)
            return failure(errno);
    }
    return {};
}

Status AtomicFile::commit(Durability durability)
{
    if (durability == Durability::onDisk && ::fsync(file_) != 0)
        return failure(errno);
    RETURN_IF_ERROR(name());
    if (::close(std::exchange(file_, -1)) != 0) // a network file system may report only here that the disk is full
        return failure(errno);
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
        return failure(errno);
    named_ = false;
    if (durability == Durability::onDisk)
        syncFolder(path_);
    return {};
}

bool isSameFile(const std::filesystem::path& a, const std::filesystem::path& b) noexcept
{
    std::error_code ignored; // no file of that name
    return std::filesystem::equivalent(a, b, ignored);
}

Status checkReplaced(const std::string& output, const std::string& input)
{
    if (!isSameFile(input, output))
        return {};
    return badInput("-o " + output + " would replace `" + input + "`, which the command reads: expected another name");
}

Status writeAtomically(const std::filesystem::path& path, std::string_view content)
{
    ASSIGN_OR_RETURN(auto file, AtomicFile::create(path));
    RETURN_IF_ERROR(file.write(std::as_bytes(std::span(content))));
    return file.commit();
}

} // namespace headroom
