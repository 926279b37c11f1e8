// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cupti/cupti_api.h"

#include "tests/cupti/fake_cupti.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom::cupti {
namespace {

TEST(CuptiApi, WithoutALibraryThereIsASentence)
{
    const auto api = loadCupti({"libno-such-cupti.so.1"});
    ASSERT_FALSE(api);
    EXPECT_EQ(api.error().kind, ErrorKind::noDevice);
    EXPECT_EQ(api.error().message,
              "kernel times cannot be measured: there is no CUPTI (libcupti.so.13); install the CUDA build of torch, "
              "or the CUDA toolkit");
}

TEST(CuptiApi, AnotherLibraryOfThatNameIsRefusedByTheFunctionThatItLacks)
{
    const auto api = loadCupti({"libm.so.6"});
    ASSERT_FALSE(api);
    EXPECT_EQ(
        api.error().message,
        "kernel times cannot be measured: libm.so.6 has no function cuptiGetVersion; install the CUPTI of CUDA 13");
}

TEST(CuptiApi, TheRealOneIsLoadedWhereItIs)
{
    const auto api = loadCupti();
    if (!api)
        GTEST_SKIP() << api.error().message;
    EXPECT_GE(api->version, 18U);
    EXPECT_NE(api->getNextRecord, nullptr);
}

/// Every code of GPU.md's table says what to do, and none of them is the sentence of another cause.
TEST(CuptiApi, EveryKnownFailureIsASentenceOfItsOwn)
{
    const std::vector<std::pair<CUptiResult, const char*>> expected{
        {CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "NVreg_RestrictProfilingToAdminUsers=0"},
        {CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, "another profiler"},
        {CUPTI_ERROR_NOT_INITIALIZED, "update the driver"},
        {CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED, "virtual GPU (vGPU)"},
        {CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES, "ask the host's administrator"},
        {CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED, "confidential-computing"},
        {CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED, "mining card"},
        {CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED, "(MIG)"},
        {CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED, "SLI"},
        {CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED, "WSL"},
        {CUPTI_ERROR_HARDWARE_BUSY, "dcgmi profile --pause"},
        {CUPTI_ERROR_OUT_OF_MEMORY, "not enough memory"}};
    for (const auto& [code, text] : expected) {
        const Error error = cuptiError(FakeCupti::api(), code, "cuptiActivityEnable");
        EXPECT_EQ(error.kind, ErrorKind::noDevice);
        EXPECT_THAT(error.message, testing::StartsWith("kernel times cannot be measured: "));
        EXPECT_THAT(error.message, testing::HasSubstr(text));
        EXPECT_THAT(error.message, testing::HasSubstr("code " + std::to_string(static_cast<int>(code))));
        EXPECT_THAT(error.message, testing::Not(testing::HasSubstr("\n")));
    }
}

TEST(CuptiApi, AnUnknownFailureNamesTheFunctionAndTheCode)
{
    EXPECT_EQ(cuptiError(FakeCupti::api(), static_cast<CUptiResult>(777), "cuptiActivityEnable").message,
              "kernel times cannot be measured: cuptiActivityEnable failed (an error without a name, code 777, "
              "CUPTI 13.0.1)");
}

} // namespace
} // namespace headroom::cupti
