// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// What a model file that has taken over the recorder's process can still do.
#include "app/record/confinement.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
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

} // namespace
} // namespace headroom
