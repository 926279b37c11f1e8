// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/device_specs.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(GpuFacts, AKnownCardIsFoundByWhatItIs)
{
    // As an H200 reports itself: its memory differs a little from board to board.
    const DeviceSpec h200 = deviceSpecOf({"NVIDIA H200", 143'771 * MiB, 90, 132, 1'980'000, 3'201'000, 6144});
    EXPECT_EQ(h200.name, "h200-141gb");
    EXPECT_EQ(h200.memory, findDeviceSpec("h200-141gb")->memory);
    // Every card of the list is found as itself, or as another one with the same rates.
    for (const DeviceSpec& spec : deviceSpecs()) {
        const DeviceSpec found
            = deviceSpecOf({spec.title, spec.memory, spec.computeCapability, spec.multiprocessors, 1, 1, 1});
        EXPECT_EQ(found.computeCapability, spec.computeCapability) << spec.name;
        EXPECT_EQ(found.multiprocessors, spec.multiprocessors) << spec.name;
        EXPECT_NEAR(static_cast<double>(found.memory) / static_cast<double>(spec.memory), 1, 0.05) << spec.name;
    }
}

TEST(GpuFacts, TheRatesOfACardFollowFromItsOwnClocks)
{
    for (const DeviceSpec& spec : deviceSpecs()) {
        GpuFacts facts = gpuFactsOf(spec);
        facts.memory *= 10; // so that it is not found in the list
        const DeviceSpec computed = deviceSpecOf(facts);
        EXPECT_NEAR(computed.float32Flops / spec.float32Flops, 1, 0.01) << spec.name;
        // The figure of a B200 is the data dialog's, 8 TB/s.
        EXPECT_NEAR(computed.gigabytesPerSecond / spec.gigabytesPerSecond, 1, spec.name == "b200-180gb" ? 0.05 : 1e-6)
            << spec.name;
    }
}

TEST(GpuFacts, ANameMayBeWrittenAsPeopleWriteIt)
{
    for (const DeviceSpec& spec : deviceSpecs())
        for (const std::string& text : {spec.name, spec.title})
            EXPECT_EQ(gpuName(text), spec.name) << text;
    EXPECT_EQ(gpuName("RTX 4090"), "rtx-4090-24gb");
    EXPECT_EQ(gpuName("rtx4090"), "rtx4090");
    EXPECT_EQ(gpuName("4090"), "rtx-4090-24gb");
    EXPECT_EQ(gpuName("nvidia_h100"), "h100-80gb");
    EXPECT_EQ(gpuName("A100 40GB"), "a100-40gb");
    // No card, or not a single one.
    for (const std::string text : {"", "rtx", "nvidia", "a100", "RTX 4070", "h100 40gb", "21GiB", "24gb", "mi300x"})
        EXPECT_EQ(gpuName(text), text);
    EXPECT_EQ(findDeviceSpec("A100").error().message, "unknown GPU 'A100': expected a100-80gb, a100-40gb");
}

TEST(GpuFacts, ASliceOfACardIsNotTheCard)
{
    const DeviceSpec slice = deviceSpecOf({"NVIDIA H200 MIG 1g.18gb", 16 * GiB, 90, 16, 1'980'000, 3'201'000, 6144});
    EXPECT_EQ(slice.name, "nvidia-h200-mig-1g-18gb-16gb");
    EXPECT_EQ(slice.memory, 16 * GiB);
}

TEST(GpuFacts, RatesOfAnUnknownCardFollowFromItsClocks)
{
    // An A100 that is not in the list: the figures of resources/devices.json follow from the same formulas.
    const DeviceSpec card = deviceSpecOf({"NVIDIA A100X", 60 * GiB, 80, 108, 1'410'000, 1'593'000, 5120});
    EXPECT_DOUBLE_EQ(card.gigabytesPerSecond, 2039.04);
    EXPECT_NEAR(card.float32Flops, 19.49184e12, 1e6);
    EXPECT_NEAR(card.halfFlops, 311.86944e12, 1e6);
    EXPECT_NEAR(card.tensorFloat32Flops, 155.93472e12, 1e6);
}

} // namespace
} // namespace headroom
