// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_file.h"
#include "tests/cli/process.h"
#include "tests/core/synthetic_step.h"
#include "tests/core/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom {

/// A folder with one step file in it: a made-up transformer of four blocks.
class CliTest : public testing::Test
{
protected:
    void SetUp() override
    {
        trace = makeSyntheticStep();
        ASSERT_TRUE(writeStepTrace(*trace, stepPath()).ok());
    }

    std::string stepPath() const { return path("step.hrs"); }
    std::string path(const std::string& name) const { return (folder.path() / name).string(); }
    static std::string data(const std::string& name) { return HEADROOM_TEST_DATA "/pytorch/" + name; }

    TemporaryFolder folder;
    StepTracePtr trace;
};

/// Exit code 2 and one line that holds all of `words`; nothing on stdout.
inline void expectBadInput(const Finished& finished, std::initializer_list<const char*> words)
{
    EXPECT_EQ(finished.exitCode, 2) << finished.err;
    EXPECT_EQ(finished.out, "");
    EXPECT_TRUE(isErrorLine(finished.err)) << finished.err;
    for (const char* word : words)
        EXPECT_THAT(finished.err, testing::HasSubstr(word));
}

} // namespace headroom
