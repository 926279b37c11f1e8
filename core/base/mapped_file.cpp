// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/mapped_file.h"

#include "core/base/bytes.h"
#include "core/base/try.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <mutex>
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
        return "a folder: name a file in the folder";
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

/// What the user can do; may be empty.
const char* adviceOn(int code)
{
    switch (code) {
    case ENOENT:
        return "; check the name";
    case EACCES:
    case EPERM:
        return "; allow reading (chmod +r), or copy the file";
    default:
        return "";
    }
}

Error cannotOpen(const std::filesystem::path& path, int code)
{
    return badInput("cannot open " + path.string() + ": " + std::generic_category().message(code) + adviceOn(code));
}

Error hasChanged(const std::filesystem::path& path)
{
    return badInput(
        path.string()
        + " changed while Headroom read the file: try again when the program that writes the file has ended");
}

FileStamp stampOf(const struct stat& status)
{
    constexpr std::int64_t nsPerSecond = 1'000'000'000;
    return {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec * nsPerSecond + status.st_mtim.tv_nsec};
}

/// Memory of `size` bytes, or a mapping of `file` (-1: no file); MAP_FAILED: errno says why.
std::byte* map(std::size_t size, int protection, int file)
{
    const int flags = MAP_PRIVATE | (file < 0 ? MAP_ANONYMOUS : 0);
    return static_cast<std::byte*>(::mmap(nullptr, size, protection, flags, file, 0));
}

// An access behind the end of a file that another program has cut off raises SIGBUS, and SIGBUS ends the process.
// The handler puts pages of zeros in place of the missing pages, and the access goes on. The handler may only use
// atomics and system calls.

struct GuardedMapping
{
    std::atomic<bool> taken = false;
    std::atomic<std::uintptr_t> begin = 0; ///< 0: none
    std::atomic<std::uintptr_t> end = 0;
};

constexpr std::size_t mostGuarded = 256;
std::array<GuardedMapping, mostGuarded> guardedMappings;
struct sigaction handlerBefore;

/// Hands a signal on to the handler that was installed before ours.
void passOn(int signal, siginfo_t* info, void* context)
{
    if (handlerBefore.sa_flags & SA_SIGINFO)
        handlerBefore.sa_sigaction(signal, info, context);
    else if (handlerBefore.sa_handler != SIG_DFL && handlerBefore.sa_handler != SIG_IGN)
        handlerBefore.sa_handler(signal);
    else {
        ::sigaction(signal, &handlerBefore, nullptr);
        ::raise(signal); // a signal that another process sent is not repeated by an access
    }
}

void replaceLostPages(int signal, siginfo_t* info, void* context)
{
    const int error = errno;
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    for (const GuardedMapping& mapping : guardedMappings) {
        const std::uintptr_t begin = mapping.begin;
        const std::uintptr_t end = mapping.end;
        if (begin == 0 || address < begin || address >= end)
            continue;
        const std::uintptr_t page = address & ~(static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)) - 1);
        void* const made = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
        if (made == MAP_FAILED)
            break;
        errno = error;
        return;
    }
    errno = error;
    passOn(signal, info, context);
}

void installGuard()
{
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction handler = {};
        handler.sa_sigaction = replaceLostPages;
        handler.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        ::sigemptyset(&handler.sa_mask);
        ::sigaction(SIGBUS, &handler, &handlerBefore);
    });
}

/// Returns the place of the mapping in the list; mostGuarded: the list is full.
std::size_t guard(std::span<const std::byte> bytes)
{
    installGuard();
    for (std::size_t i = 0; i < mostGuarded; ++i) {
        if (guardedMappings[i].taken.exchange(true))
            continue;
        const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
        guardedMappings[i].end = begin + bytes.size();
        guardedMappings[i].begin = begin;
        return i;
    }
    return mostGuarded;
}

} // namespace

std::optional<FileStamp> stampOf(const std::filesystem::path& path)
{
    struct stat status = {};
    return ::stat(path.c_str(), &status) == 0 ? std::optional(stampOf(status)) : std::nullopt;
}

Result<InputFile> InputFile::open(const std::filesystem::path& path, std::size_t most)
{
    InputFile input(path, most);
    struct stat status = {};
    // Before the file is opened: opening a device may do something. O_NONBLOCK: nor does a pipe that came since wait.
    if (::stat(path.c_str(), &status) != 0)
        return input.failure(errno);
    const auto irregular = [&] {
        return badInput("cannot open " + path.string() + ": expected a regular file, but found "
                        + kindOf(status.st_mode));
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
    return cannotOpen(path_, code);
}

Error InputFile::tooLarge() const
{
    return badInput("cannot open " + path_.string() + ": more than " + formatBytes(static_cast<Bytes>(most_), 0)
                    + " is too much for a file of this kind");
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

MappedFile::MappedFile(std::filesystem::path path, InputFile input)
    : path_(std::move(path))
    , input_(std::move(input))
{
    struct stat status = {};
    if (::fstat(input_->descriptor(), &status) == 0)
        stamp_ = stampOf(status);
    stamp_.size = static_cast<std::int64_t>(input_->size());
}

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path)
{
    ASSIGN_OR_RETURN(InputFile input, InputFile::open(path));
    const std::size_t size = input.size();
    const std::shared_ptr<MappedFile> file(new MappedFile(path, std::move(input)));
    if (size == 0)
        return std::shared_ptr<const MappedFile>(file);
    std::byte* const address = map(size, PROT_READ, file->input_->descriptor());
    if (address == MAP_FAILED)
        return cannotOpen(path, errno);
    file->bytes_ = {address, size};
    file->guard_ = guard(file->bytes_);
    if (file->guard_ == mostGuarded)
        return badInput("cannot open " + path.string() + ": too many files are being read");
    return std::shared_ptr<const MappedFile>(file);
}

Result<std::shared_ptr<const MappedFile>> MappedFile::read(const std::filesystem::path& path)
{
    ASSIGN_OR_RETURN(InputFile input, InputFile::open(path));
    const std::size_t size = input.size();
    const std::shared_ptr<MappedFile> file(new MappedFile(path, std::move(input)));
    file->guard_ = mostGuarded;
    if (size == 0)
        return std::shared_ptr<const MappedFile>(file);
    std::byte* const address = map(size, PROT_READ | PROT_WRITE, -1);
    if (address == MAP_FAILED)
        return cannotOpen(path, errno);
    file->bytes_ = {address, size};
    for (std::size_t done = 0; done < size;) {
        const ssize_t got = ::read(file->input_->descriptor(), address + done, size - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return cannotOpen(path, errno);
        if (got == 0)
            return hasChanged(path);
        done += static_cast<std::size_t>(got);
    }
    RETURN_IF_ERROR(file->unchanged());
    file->input_.reset();
    ::mprotect(address, size, PROT_READ);
    return std::shared_ptr<const MappedFile>(file);
}

Status MappedFile::unchanged() const
{
    struct stat status = {};
    if (input_ && (::fstat(input_->descriptor(), &status) != 0 || stampOf(status) != stamp_))
        return hasChanged(path_);
    return {};
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
    if (guard_ < mostGuarded && !bytes_.empty()) {
        guardedMappings[guard_].begin = 0;
        guardedMappings[guard_].taken = false;
    }
    if (!bytes_.empty())
        ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

} // namespace headroom
