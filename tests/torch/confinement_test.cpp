// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// What a model file that has taken over the recorder's process can still do.
#include "app/record/confinement.h"

#include "core/base/available_memory.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace headroom {
namespace {

namespace fs = std::filesystem;

class Confinement : public testing::Test
{
protected:
    Confinement()
    {
        if (confinementHere().empty())
            return;
        fs::create_directories(folder_);
        for (const char* name : {"model.pt", "other"})
            std::ofstream(folder_ / name) << "content";
    }
    ~Confinement() override { fs::remove_all(folder_); }

    /// Runs `attempt` in a confined process. Returns whether it succeeded.
    bool succeeds(const std::function<bool()>& attempt) const
    {
        const pid_t child = fork();
        if (child == 0) {
            confineProcess({folder_ / "model.pt"}, false);
            std::_Exit(attempt() ? 0 : 1);
        }
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT_TRUE(WIFEXITED(status));
        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    bool hasLandlock() const
    {
        const auto names = confinementHere();
        return std::find(names.begin(), names.end(), "Landlock") != names.end();
    }

    const fs::path folder_ = fs::path(testing::TempDir()) / "headroom_confinement";
};

TEST_F(Confinement, ReadsTheModelAndWritesWhatIsOpen)
{
    const int output = open((folder_ / "output").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_TRUE(succeeds([&] { return open((folder_ / "model.pt").c_str(), O_RDONLY) >= 0; }));
    EXPECT_TRUE(succeeds([&] { return write(output, "x", 1) == 1; }));
    EXPECT_TRUE(succeeds([] {
        bool ran = false;
        std::thread([&] { ran = true; }).join();
        return ran;
    }));
    close(output);
}

TEST_F(Confinement, DoesNothingElse)
{
    if (confinementHere().empty())
        GTEST_SKIP() << "this system has neither Landlock nor seccomp";
    const std::string other = (folder_ / "other").string();
    const std::string made = (folder_ / "made").string();
    EXPECT_FALSE(succeeds([&] { return open(other.c_str(), O_WRONLY) >= 0; }));
    EXPECT_FALSE(succeeds([&] { return open(other.c_str(), O_RDWR) >= 0; }));
    EXPECT_FALSE(succeeds([&] { return open((folder_ / "model.pt").c_str(), O_RDWR) >= 0; }));
    EXPECT_FALSE(succeeds([&] { return open(made.c_str(), O_WRONLY | O_CREAT, 0600) >= 0; }));
    EXPECT_FALSE(succeeds([&] { return open(folder_.c_str(), O_WRONLY | O_TMPFILE, 0600) >= 0; }));
    EXPECT_FALSE(succeeds([&] { return unlink(other.c_str()) == 0; }));
    EXPECT_FALSE(succeeds([&] { return rename(other.c_str(), made.c_str()) == 0; }));
    EXPECT_FALSE(succeeds([&] { return link(other.c_str(), made.c_str()) == 0; }));
    EXPECT_FALSE(succeeds([&] { return symlink(other.c_str(), made.c_str()) == 0; }));
    EXPECT_FALSE(succeeds([&] { return mkdir(made.c_str(), 0700) == 0; }));
    EXPECT_FALSE(succeeds([&] { return mkfifo(made.c_str(), 0600) == 0; }));
    EXPECT_FALSE(succeeds([&] { return truncate(other.c_str(), 0) == 0; }));
    if (confinementHere().size() == 2) {
        EXPECT_FALSE(succeeds([&] { return chmod(other.c_str(), 0777) == 0; }));
        EXPECT_FALSE(succeeds([] { return execl("/bin/true", "true", nullptr) == 0; })); // `true` would exit with 0
        EXPECT_FALSE(succeeds([] { return socket(AF_INET, SOCK_STREAM, 0) >= 0; }));
        EXPECT_FALSE(succeeds([] { return socket(AF_UNIX, SOCK_STREAM, 0) >= 0; }));
        EXPECT_FALSE(succeeds([] { return kill(getppid(), 0) == 0; }));
    }
    if (hasLandlock()) {
        EXPECT_FALSE(succeeds([&] { return open(other.c_str(), O_RDONLY) >= 0; }));
    }
    EXPECT_FALSE(fs::exists(made));
    EXPECT_EQ(fs::file_size(other), 7U);
}

TEST(Memory, IsLimitedToWhatTheMachineHas)
{
    const pid_t child = fork();
    if (child == 0) {
        limitMemory();
        std::vector<void*> pieces;
        constexpr std::size_t piece = std::size_t{1} << 30;
        while (void* memory = std::malloc(piece)) // untouched: it takes no memory
            pieces.push_back(memory);
        const std::size_t machine
            = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        std::_Exit(pieces.size() * piece <= machine + 4 * piece ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(Memory, AvailableIsALineOfAFile)
{
    const fs::path file = fs::path(testing::TempDir()) / "headroom_meminfo";
    std::ofstream(file) << "MemFree:            5 kB\nMemAvailable:       7 kB\n";
    EXPECT_EQ(numberInFile(file, "MemAvailable:"), 7U);
    EXPECT_EQ(numberInFile(file, "VmData:"), 0U);
    EXPECT_EQ(numberInFile("/proc/no such file", "MemAvailable:"), 0U);
    fs::remove(file);
    EXPECT_GT(availableMemory(), 0);
}

/// A system's folders `proc` and `sys` with control groups.
class ControlGroups : public testing::Test
{
protected:
    ~ControlGroups() override { fs::remove_all(root_); }

    void write(const fs::path& file, const std::string& content) const
    {
        fs::create_directories((root_ / file).parent_path());
        std::ofstream(root_ / file) << content;
    }
    void writeVersion2(const fs::path& group, const std::string& limit, const std::string& usage) const
    {
        const fs::path folder = "sys/fs/cgroup" / group;
        write(folder / "memory.max", limit + '\n');
        write(folder / "memory.current", usage + '\n');
    }

    const fs::path root_ = fs::path(testing::TempDir()) / "headroom_control_groups";
    static constexpr auto unlimited_ = std::numeric_limits<std::uint64_t>::max();
};

TEST_F(ControlGroups, WithoutALimit)
{
    EXPECT_EQ(memoryLeftByControlGroups(root_), unlimited_);
    write("proc/self/cgroup", "1:cpu:/\n0::/user.slice\n");
    EXPECT_EQ(memoryLeftByControlGroups(root_), unlimited_);
    writeVersion2("user.slice", "max", "5000");
    EXPECT_EQ(memoryLeftByControlGroups(root_), unlimited_);
}

TEST_F(ControlGroups, OfVersion2)
{
    write("proc/self/cgroup", "0::/pod/container\n");
    writeVersion2("pod/container", "9000", "1000");
    EXPECT_EQ(memoryLeftByControlGroups(root_), 8000U);
    writeVersion2("pod", "6000", "4000"); // all of its containers
    EXPECT_EQ(memoryLeftByControlGroups(root_), 2000U);
    write("sys/fs/cgroup/pod/memory.stat", "anon 700\ninactive_file 500\ntotal_inactive_file 900\n");
    EXPECT_EQ(memoryLeftByControlGroups(root_), 2500U);
    writeVersion2("pod", "6000", "7000"); // the limit was lowered
    EXPECT_EQ(memoryLeftByControlGroups(root_), 0U);
}

TEST_F(ControlGroups, OfVersion1)
{
    write("proc/self/cgroup", "3:cpuset:/\n2:cpu,memory:/docker/a:b\n0::/\n");
    const auto writeGroup = [&](const fs::path& group, const std::string& limit) {
        const fs::path folder = "sys/fs/cgroup/memory" / group;
        write(folder / "memory.limit_in_bytes", limit);
        write(folder / "memory.usage_in_bytes", "3000");
        write(folder / "memory.stat", "inactive_file 10\ntotal_inactive_file 100\n");
    };
    writeGroup("docker/a:b", "4000");
    EXPECT_EQ(memoryLeftByControlGroups(root_), 1100U);
    fs::remove_all(root_ / "sys");
    writeGroup("", "5000"); // in the container, which sees its group as the root
    EXPECT_EQ(memoryLeftByControlGroups(root_), 2100U);
    writeGroup("", "9223372036854771712"); // none
    EXPECT_GT(memoryLeftByControlGroups(root_), std::uint64_t{1} << 62);
}

} // namespace
} // namespace headroom
