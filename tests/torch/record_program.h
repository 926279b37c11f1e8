// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/wait.h>

namespace headroom {

namespace fs = std::filesystem;

struct Outcome
{
    int exitCode = -1;
    std::string output;
    std::string errors;
};

/// A folder of its own for each test, in which torch-headroom-record runs.
class RecordProgram : public testing::Test
{
protected:
    RecordProgram()
        : folder_(fs::path(testing::TempDir())
                  / ("headroom_record_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name())))
    {
        fs::remove_all(folder_);
        fs::create_directories(folder_);
    }
    ~RecordProgram() override { fs::remove_all(folder_); }

    Outcome run(const std::string& arguments) const
    {
        const std::string command = "cd '" + folder_.string() + "' && '" HEADROOM_BIN_DIR "/torch-headroom-record' "
            + arguments + " 2>.errors";
        Outcome result;
        FILE* pipe = popen(command.c_str(), "r");
        if (!pipe)
            return result;
        std::array<char, 4096> buffer{};
        while (const std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe))
            result.output.append(buffer.data(), count);
        const int status = pclose(pipe);
        result.exitCode = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        std::ostringstream errors;
        errors << std::ifstream(folder_ / ".errors").rdbuf();
        result.errors = errors.str();
        fs::remove(folder_ / ".errors");
        return result;
    }

    /// Bad input: exit 2, this one line on stderr, nothing on stdout, nothing written.
    void expectRefused(const std::string& arguments, const std::string& message) const
    {
        SCOPED_TRACE(arguments);
        const Outcome result = run(arguments);
        EXPECT_EQ(result.exitCode, 2);
        EXPECT_EQ(result.errors, "torch-headroom-record: " + message + "\n");
        EXPECT_EQ(result.output, "");
        EXPECT_TRUE(fs::is_empty(folder_));
    }

    fs::path folder_;
};

} // namespace headroom
