// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/cli/process.h"
#include "tests/core/temporary_folder.h"

#include <array>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace headroom {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// A recording of a model that never comes back, and the signals that end it: `torch-headroom record` as a shell runs
/// it.
class InterruptedRecording : public testing::Test
{
protected:
    /// Starts it and waits until it hangs in the model's forward.
    void start(const std::string& program)
    {
        int ends[2] = {-1, -1};
        ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
        errors_ = ends[0];
        const std::string output = (folder_.path() / "step.hrs").string();
        const std::string binary = std::string(HEADROOM_BIN_DIR "/") + program;
        const std::array<const char*, 10> arguments{program.c_str(), "record",     model_, "--input", "x=8", "-o",
                                                    output.c_str(),  "--progress", nullptr};
        child_ = fork();
        ASSERT_GE(child_, 0);
        if (child_ == 0) {
            dup2(ends[1], STDERR_FILENO);
            execv(binary.c_str(), const_cast<char* const*>(arguments.data()));
            _exit(127);
        }
        close(ends[1]);
        while (text_.find("\"forward\"") == std::string::npos || text_.back() != '\n') // the line may come in pieces
            ASSERT_TRUE(readSome()) << text_;
        text_.clear();
    }

    ~InterruptedRecording() override
    {
        if (child_ > 0) {
            kill(child_, SIGKILL);
            waitpid(child_, nullptr, 0);
        }
        if (errors_ >= 0)
            close(errors_);
    }

    /// The process that runs the model.
    pid_t worker() const
    {
        std::ifstream children("/proc/" + std::to_string(child_) + "/task/" + std::to_string(child_) + "/children");
        pid_t worker = 0;
        children >> worker;
        return worker;
    }

    /// The exit code; afterwards text_ is all of stderr.
    int end()
    {
        while (readSome()) {}
        int status = 0;
        waitpid(child_, &status, 0);
        child_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    }

    bool readSome()
    {
        std::array<char, 4096> buffer{};
        const ssize_t count = read(errors_, buffer.data(), buffer.size());
        if (count > 0)
            text_.append(buffer.data(), static_cast<std::size_t>(count));
        return count > 0;
    }

    static constexpr const char* model_ = HEADROOM_TEST_DATA "/models/torchscript/endless.pt";
    TemporaryFolder folder_;
    pid_t child_ = -1;
    int errors_ = -1;
    std::string text_;
};

TEST_F(InterruptedRecording, CtrlCEndsAHangWithOneSentence)
{
    start("torch-headroom");
    kill(child_, SIGINT);
    EXPECT_EQ(end(), 130);
    EXPECT_EQ(text_, "torch-headroom: interrupted during forward; nothing was written\n");
    EXPECT_THAT(filesIn(folder_.path()), IsEmpty());
}

TEST_F(InterruptedRecording, SoDoesCtrlCToAllProcessesOfTheTerminal)
{
    start("torch-headroom-record");
    kill(worker(), SIGINT);
    kill(child_, SIGINT);
    EXPECT_EQ(end(), 130);
    EXPECT_EQ(text_, "torch-headroom-record: interrupted during forward; nothing was written\n");
    EXPECT_THAT(filesIn(folder_.path()), IsEmpty());
}

TEST_F(InterruptedRecording, TerminationToo)
{
    start("torch-headroom-record");
    kill(child_, SIGTERM);
    EXPECT_EQ(end(), 143);
    EXPECT_EQ(text_, "torch-headroom-record: interrupted during forward; nothing was written\n");
    EXPECT_THAT(filesIn(folder_.path()), IsEmpty());
}

TEST_F(InterruptedRecording, ACrashIsOneSentence)
{
    for (const int signal : {SIGSEGV, SIGABRT, SIGBUS}) {
        SCOPED_TRACE(signal);
        start("torch-headroom");
        kill(worker(), signal);
        EXPECT_EQ(end(), 1);
        EXPECT_EQ(text_,
                  "torch-headroom: crashed during forward (" + std::string(strsignal(signal))
                      + "); nothing was written; this is a defect of Headroom or of libtorch\n");
        EXPECT_THAT(filesIn(folder_.path()), IsEmpty());
        close(errors_);
        text_.clear();
    }
    errors_ = -1;
}

TEST_F(InterruptedRecording, AKillForLackOfMemoryIsOneSentence)
{
    start("torch-headroom");
    kill(worker(), SIGKILL);
    EXPECT_EQ(end(), 1);
    EXPECT_EQ(text_,
              "torch-headroom: killed during forward; nothing was written; the system does this when memory runs "
              "out, so try a smaller model or batch\n");
    EXPECT_THAT(filesIn(folder_.path()), IsEmpty());
}

TEST_F(InterruptedRecording, NothingGoesOnWhenTheProgramIsKilled)
{
    start("torch-headroom-record");
    const pid_t running = worker();
    ASSERT_GT(running, 0);
    kill(child_, SIGKILL);
    EXPECT_EQ(end(), 1000 + SIGKILL); // end() reads until the last process has closed stderr
    EXPECT_THAT(filesIn(folder_.path()), IsEmpty());
}

TEST(RecordingWithoutMemory, IsRefusedInOneSentence)
{
    const TemporaryFolder folder;
    const Finished finished = headroomProgram({"record", HEADROOM_TEST_DATA "/models/torchscript/greedy.pt", "--input",
                                               "x=8", "-o", (folder.path() / "step.hrs").string()});
    EXPECT_EQ(finished.exitCode, 1);
    EXPECT_EQ(finished.err,
              "torch-headroom: this machine has not enough memory for the recording; try a smaller model or batch\n");
    EXPECT_THAT(filesIn(folder.path()), IsEmpty());
}

} // namespace
} // namespace headroom
