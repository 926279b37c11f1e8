// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/record/confinement.h"

#include "core/base/available_memory.h"

#include <ATen/Context.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <initializer_list>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace headroom {
namespace {

namespace fs = std::filesystem;

// Landlock's interface (linux/landlock.h): the header may be older than the kernel.
namespace landlock {

constexpr long createRuleset = 444;
constexpr long addRule = 445;
constexpr long restrictSelf = 446;
constexpr std::uint32_t askVersion = 1;
constexpr int pathBeneath = 1;

struct Ruleset
{
    std::uint64_t files; ///< denied unless a rule allows the access
    std::uint64_t network; ///< since version 4
    std::uint64_t scoped; ///< since version 6
};
struct __attribute__((packed)) PathRule
{
    std::uint64_t allowed;
    std::int32_t file;
};

constexpr std::uint64_t writeFile = 1U << 1;
constexpr std::uint64_t readFile = 1U << 2;
constexpr std::uint64_t readFolder = 1U << 3;
constexpr std::uint64_t deviceCalls = 1U << 15;

/// Number of kinds of access to files in a version.
int fileAccesses(int version)
{
    return version >= 5 ? 16 : version >= 3 ? 15 : version == 2 ? 14 : 13;
}

} // namespace landlock

bool allow(int ruleset, const fs::path& path, std::uint64_t accesses)
{
    const int file = ::open(path.c_str(), O_PATH | O_CLOEXEC);
    if (file < 0)
        return false;
    const landlock::PathRule rule{accesses, file};
    const bool added = ::syscall(landlock::addRule, ruleset, landlock::pathBeneath, &rule, 0) == 0;
    ::close(file);
    return added;
}

/// Returns the folder of the library with libtorch's functions; empty: not known.
fs::path folderOfLibtorch()
{
    Dl_info found{};
    if (::dladdr(reinterpret_cast<const void*>(&at::globalContext), &found) == 0 || found.dli_fname == nullptr)
        return {};
    std::error_code failed;
    return fs::canonical(found.dli_fname, failed).parent_path();
}

/// Folders and files that libraries of this process read, none of them the user's.
std::vector<fs::path> systemFiles()
{
    std::error_code failed;
    std::vector<fs::path> files{"/usr",           "/lib",         "/lib64",        "/etc/ld.so.cache",
                                "/etc/localtime", "/proc/self",   "/proc/cpuinfo", "/proc/stat",
                                "/proc/meminfo",  "/proc/sys",    "/sys/devices",  "/sys/fs/cgroup",
                                "/dev/null",      "/dev/urandom", "/dev/zero",     folderOfLibtorch()};
    files.push_back(fs::read_symlink("/proc/self/exe", failed).parent_path());
    return files;
}

/// Returns whether Landlock is in force for this thread and threads started later.
bool restrictFiles(const std::vector<fs::path>& readable, bool gpu)
{
    const auto version = static_cast<int>(::syscall(landlock::createRuleset, nullptr, 0, landlock::askVersion));
    if (version < 1)
        return false;
    constexpr std::uint64_t tcp = 3; // bind and connect
    constexpr std::uint64_t socketsAndSignals = 3;
    const landlock::Ruleset all{(std::uint64_t{1} << landlock::fileAccesses(version)) - 1, tcp,
                                gpu ? 0 : socketsAndSignals};
    const std::size_t size = version >= 6 ? sizeof(all)
        : version >= 4                    ? offsetof(landlock::Ruleset, scoped)
                                          : offsetof(landlock::Ruleset, network);
    const auto ruleset = static_cast<int>(::syscall(landlock::createRuleset, &all, size, 0));
    if (ruleset < 0)
        return false;
    constexpr std::uint64_t readTree = landlock::readFile | landlock::readFolder;
    std::error_code failed;
    for (const fs::path& path : gpu ? std::vector<fs::path>{"/"} : systemFiles())
        allow(ruleset, path, fs::is_directory(path, failed) ? readTree : landlock::readFile);
    for (const fs::path& path : readable)
        allow(ruleset, path, landlock::readFile);
    if (gpu) {
        const std::uint64_t use = landlock::readFile | landlock::writeFile | (all.files & landlock::deviceCalls);
        for (const auto& device : fs::directory_iterator("/dev", failed))
            if (device.path().filename().string().starts_with("nvidia"))
                allow(ruleset, device.path(), use);
    }
    const bool done = ::syscall(landlock::restrictSelf, ruleset, 0) == 0;
    ::close(ruleset);
    return done;
}

#if defined(__x86_64__)
constexpr std::uint32_t processor = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t processor = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t processor = 0;
#endif

/// A filter of system calls: calls that are not named are allowed.
class CallFilter
{
public:
    CallFilter()
    {
        load(offsetof(seccomp_data, arch));
        // A call in the numbers of another processor, as of 32-bit programs, is none of this process.
        add(BPF_JMP | BPF_JEQ | BPF_K, processor, 1, 0);
        refuse();
        load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
        constexpr std::uint32_t shortPointers = 0x40000000;
        add(BPF_JMP | BPF_JGE | BPF_K, shortPointers, 0, 1);
        refuse();
#endif
    }

    void refuse(std::initializer_list<long> calls)
    {
        for (const long call : calls) {
            add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1);
            refuse();
        }
    }
    /// Refuses a call with an argument that has any of the bits.
    void refuseBits(long call, unsigned argument, std::uint32_t bits)
    {
        refuseIf(call, argument, BPF_JSET, bits);
    }
    void refuseValue(long call, unsigned argument, std::uint32_t value)
    {
        refuseIf(call, argument, BPF_JEQ, value);
    }

    /// Puts the filter into force for all threads of this process.
    bool apply()
    {
        add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
        sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
        return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
    }

private:
    static std::size_t lowHalf(unsigned argument)
    {
        return offsetof(seccomp_data, args) + argument * sizeof(std::uint64_t); // both processors are little-endian
    }
    /// Refuses a call with an argument that compares with the operand.
    void refuseIf(long call, unsigned argument, int comparison, std::uint32_t operand)
    {
        add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 4);
        load(lowHalf(argument));
        add(BPF_JMP | comparison | BPF_K, operand, 0, 1);
        refuse();
        load(offsetof(seccomp_data, nr));
    }
    void load(std::size_t offset)
    {
        add(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset), 0, 0);
    }
    void refuse()
    {
        add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
    }
    void add(int code, std::uint32_t value, std::uint8_t ifTrue, std::uint8_t ifFalse)
    {
        code_.push_back({static_cast<std::uint16_t>(code), ifTrue, ifFalse, value});
    }

    std::vector<sock_filter> code_;
};

bool restrictCalls(bool gpu)
{
    if (processor == 0)
        return false;
    CallFilter filter;
    filter.refuse({SYS_execve,
                   SYS_execveat,
                   SYS_ptrace,
                   SYS_process_vm_readv,
                   SYS_process_vm_writev,
                   SYS_kill,
                   SYS_tkill,
                   SYS_rt_sigqueueinfo,
                   SYS_mount,
                   SYS_umount2,
                   SYS_chroot,
                   SYS_pivot_root,
                   SYS_unshare,
                   SYS_setns,
                   SYS_open_by_handle_at,
                   SYS_bpf,
                   SYS_keyctl,
                   SYS_add_key,
                   SYS_request_key,
                   SYS_perf_event_open,
                   SYS_init_module,
                   SYS_finit_module,
                   SYS_kexec_load,
                   SYS_reboot,
                   SYS_swapon,
                   425 /* io_uring_setup */,
                   424 /* pidfd_send_signal */,
                   438 /* pidfd_getfd */});
    constexpr std::uint32_t pushInput = 0x5412; // TIOCSTI types into the terminal
    filter.refuseValue(SYS_ioctl, 1, pushInput);
    // NVIDIA's driver opens devices for writing, also later; with a GPU, Landlock alone guards the files.
    if (!gpu) {
        filter.refuse({SYS_socket,        SYS_mkdirat,
                       SYS_mknodat,       SYS_unlinkat,
                       SYS_renameat,      SYS_renameat2,
                       SYS_linkat,        SYS_symlinkat,
                       SYS_truncate,      SYS_fchmodat,
                       SYS_fchmod,        SYS_fchownat,
                       SYS_fchown,        SYS_utimensat,
                       SYS_setxattr,      SYS_lsetxattr,
                       SYS_fsetxattr,     SYS_removexattr,
                       SYS_lremovexattr,  SYS_fremovexattr,
                       437 /* openat2 */, 452 /* fchmodat2 */});
        constexpr std::uint32_t writes = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
        filter.refuseBits(SYS_openat, 2, writes);
#if defined(__x86_64__)
        filter.refuse({SYS_creat, SYS_mkdir, SYS_mknod, SYS_unlink, SYS_rmdir, SYS_rename, SYS_link, SYS_symlink,
                       SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes});
        filter.refuseBits(SYS_open, 1, writes);
#endif
    }
    return filter.apply();
}

} // namespace

std::vector<std::string> confineProcess(const std::vector<std::filesystem::path>& readable, bool gpu)
{
    std::vector<std::string> inForce;
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return inForce;
    if (restrictFiles(readable, gpu))
        inForce.emplace_back("Landlock");
    if (restrictCalls(gpu))
        inForce.emplace_back("seccomp");
    return inForce;
}

void limitMemory()
{
    const auto free = static_cast<std::uint64_t>(availableMemory());
    const std::uint64_t used = numberInFile("/proc/self/status", "VmData:") * KiB;
    constexpr std::uint64_t addressSpace = std::uint64_t{2} << 30; // of the stacks of threads, mostly unused
    if (free == 0)
        return;
    rlimit limit{};
    ::getrlimit(RLIMIT_DATA, &limit);
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, used + free + addressSpace);
    ::setrlimit(RLIMIT_DATA, &limit);
}

std::vector<std::string> confinementHere()
{
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        return {};
    const pid_t child = ::fork();
    if (child == 0) {
        std::string names;
        for (const std::string& name : confineProcess({}, false))
            names += name + '\n';
        std::error_code none;
        const fs::path tried = fs::temp_directory_path(none) / ("headroom-doctor-" + std::to_string(::getpid()));
        const int file = ::open(tried.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file >= 0) {
            ::unlink(tried.c_str());
            names.clear();
        }
        std::_Exit(::write(ends[1], names.data(), names.size()) < 0 ? 1 : 0);
    }
    ::close(ends[1]);
    std::string names;
    std::array<char, 256> buffer{};
    for (ssize_t count = 0; (count = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
        names.append(buffer.data(), static_cast<std::size_t>(count));
    ::close(ends[0]);
    if (child > 0)
        ::waitpid(child, nullptr, 0);
    std::vector<std::string> inForce;
    std::istringstream lines(names);
    for (std::string line; std::getline(lines, line);)
        inForce.push_back(line);
    return inForce;
}

} // namespace headroom
