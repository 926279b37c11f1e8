// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The window must start at once and survive a crash of libtorch: it does not link it. The recorder must run on a
// server: it does not link Qt.
#include "tests/cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Names of the shared libraries that a program asks for, one a line, and its search path.
std::string dynamicSection(const std::string& program)
{
    const Finished finished = runProgram("/bin/sh", {"-c", "readelf -d " HEADROOM_BIN_DIR "/" + program});
    EXPECT_EQ(finished.exitCode, 0) << finished.err;
    EXPECT_THAT(finished.out, HasSubstr("NEEDED"));
    return finished.out;
}

TEST(Linkage, HeadroomDoesNotLinkLibtorch)
{
    const std::string section = dynamicSection("torch-headroom");
    EXPECT_THAT(section, HasSubstr("libQt6Core"));
    EXPECT_THAT(section, Not(HasSubstr("torch")));
    EXPECT_THAT(section, Not(HasSubstr("libc10")));
}

#ifdef HEADROOM_HAS_RECORDER
TEST(Linkage, RecorderDoesNotLinkQt)
{
    const std::string section = dynamicSection("torch-headroom-record");
    EXPECT_THAT(section, HasSubstr("libtorch_cpu"));
    EXPECT_THAT(section, Not(HasSubstr("libQt")));
}
#endif

} // namespace
} // namespace headroom
