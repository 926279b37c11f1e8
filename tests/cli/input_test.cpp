// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Input that is no file, or never ends: one sentence at once, whatever the command wants to read.
#include "tests/cli/cli_test.h"

#include <chrono>
#include <cstring>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zlib.h>

namespace headroom {
namespace {

using testing::HasSubstr;

class InputTest : public CliTest
{
protected:
    void SetUp() override
    {
        CliTest::SetUp();
        ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
        std::filesystem::create_directory(path("folder"));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, path("socket").c_str(), sizeof(address.sun_path) - 1);
        socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ASSERT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
        writeFile(path("sparse"), "");
        std::filesystem::resize_file(path("sparse"), std::uintmax_t{1} << 40);
    }
    ~InputTest() override { close(socket_); }

    /// What is no file, and what is said of it.
    std::vector<std::pair<std::string, std::string>> noFiles() const
    {
        return {{path("pipe"), "a pipe"},
                {path("folder"), "a folder"},
                {path("socket"), "a socket"},
                {"/dev/zero", "a device"}};
    }

    int socket_ = -1;
};

TEST_F(InputTest, IsARegularFileInEveryCommand)
{
    const std::string step = stepPath();
    const std::string rank = HEADROOM_TEST_DATA "/steps/fsdp_llama.hrs";
    const std::vector<std::vector<std::string>> commands{
        {"info", "FILE"},
        {"modules", "FILE"},
        {"plan", "--budget", "1GiB", "--module-info", "FILE"},
        {"plan", "FILE", "--budget", "1GiB"},
        {"plan", rank, "--budget", "1GiB", "--topology", "FILE"},
        {"plan", step, "--budget", "1GiB", "--calibration", "FILE"},
        {"op-policy", "--sac-stats", "FILE", "--module", "a", "--memory-budget", "0.5"},
        {"ops-plan", step, "--memory-budget", "0.5", "--runtime", "measured", "--op-times", "FILE"},
        {"export", step, path("out.svg"), "--timeline", "--policy", "FILE"},
        {"verify", step, "--executed", step, "--policy", "FILE"},
        {"calibrate", "FILE"},
        {"calibrate", "FILE", "--topology", "h100-8x400", "-o", path("t.json")},
        {"allocator", "FILE"},
        {"import", "FILE", "-o", path("out.hrs")},
        {"screenshot", "FILE", path("out.png")},
    };
    for (std::vector<std::string> command : commands) {
        const auto at = std::ranges::find(command, "FILE");
        for (const auto& [file, kind] : noFiles()) {
            *at = file;
            const auto begin = std::chrono::steady_clock::now();
            const Finished finished = headroomProgram(command);
            EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
            EXPECT_EQ(finished.exitCode, 2) << command.front() << ' ' << file << ": " << finished.err;
            EXPECT_TRUE(isErrorLine(finished.err)) << command.front() << ' ' << file << ": " << finished.err;
            EXPECT_THAT(finished.err, HasSubstr("expected a regular file, but found " + kind)) << command.front();
        }
        for (const std::string& file : {std::string("/proc/self/mem"), path("sparse")}) {
            *at = file;
            const Finished finished = headroomProgram(command);
            EXPECT_EQ(finished.exitCode, 2) << command.front() << ' ' << file << ": " << finished.err;
            EXPECT_TRUE(isErrorLine(finished.err)) << command.front() << ' ' << file << ": " << finished.err;
            EXPECT_THAT(finished.err, testing::Not(HasSubstr("internal"))) << command.front() << ' ' << file;
        }
    }
    EXPECT_FALSE(std::filesystem::exists(path("out.hrs")));
    EXPECT_FALSE(std::filesystem::exists(path("out.png")));
}

TEST_F(InputTest, APackedTraceThatNeverEndsIsLeft)
{
    const auto packed = [&](const std::string& name, const std::string& head, const std::string& repeated) {
        gzFile file = gzopen(path(name).c_str(), "wb");
        gzwrite(file, head.data(), static_cast<unsigned>(head.size()));
        for (std::size_t size = 0; size < (std::size_t{96} << 20); size += repeated.size())
            gzwrite(file, repeated.data(), static_cast<unsigned>(repeated.size()));
        gzclose(file);
    };
    const std::string event = R"({"ph":"X","cat":"cpu_op","name":"aten::mm","ts":0,"dur":1,"pid":1,"tid":1},)";
    std::string events;
    while (events.size() < 1 << 20)
        events += event;
    packed("events.json.gz", "{\"traceEvents\":[", events);
    packed("text.json.gz", "{\"traceEvents\":[{\"name\":\"", std::string(1 << 20, 'a'));
    for (const char* name : {"events.json.gz", "text.json.gz"}) {
        const Finished finished = headroomProgram({"info", path(name)});
        EXPECT_EQ(finished.exitCode, 2) << finished.err;
        EXPECT_TRUE(isErrorLine(finished.err)) << finished.err;
        EXPECT_THAT(finished.err, HasSubstr("and no trace does that")) << name;
    }
}

// A name in a step file, or in an argument, is shown on a terminal.
TEST_F(InputTest, ErrorsHoldNoControlCharacters)
{
    const Finished finished = headroomProgram({"info", path("\x1b[2J.hrs")});
    EXPECT_EQ(finished.exitCode, 2);
    EXPECT_EQ(finished.err.find('\x1b'), std::string::npos);
}

} // namespace
} // namespace headroom
