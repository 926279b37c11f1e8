// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
// Plans for every model file of a folder, executed at ten budgets each. The folder is named by HEADROOM_TEST_MODELS;
// its figures go to stdout.
#include "core/checkpoint/verification.h"
#include "core/device/simulated_device.h"
#include "core/model/source.h"
#include "tests/torch/plans_at_budgets.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>

namespace headroom {
namespace {

namespace fs = std::filesystem;

void addModels(const fs::path& folder, std::vector<fs::path>& files)
{
    for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().extension() == ".pt2" || entry.path().extension() == ".pt")
            files.push_back(entry.path());
    std::ranges::sort(files);
}

void verifyAtTenBudgets(const fs::path& file)
{
    const DeviceSpec card = *findDeviceSpec("h100-80gb");
    ModelRequest request;
    request.name = file.string();
    request.device = sim::device();
    if (file.filename() == "ts_script_toy.pt") // scripted: its file does not say how large the input is
        request.inputs = {{"x", {8, 100}, {}}};
    const auto model = openModel(request);
    ASSERT_TRUE(model) << model.error().message;
    const StepRunner::Options options;
    StepInfo info;
    info.model = file.filename().string();
    const auto trace = StepRunner(**model, options).record(info, card, {});
    ASSERT_TRUE(trace) << trace.error().message;
    std::size_t budgets = 0;
    std::size_t equal = 0;
    std::size_t within = 0;
    double largest = 0;
    std::string first;
    for (const PlanAnswer& planned : plansAtTenBudgets(*trace)) {
        const auto verified = verifyMemory(**model, options, planned.policy(*trace), info, card, {});
        ASSERT_TRUE(verified) << verified.error().message;
        ++budgets;
        equal += verified->timelinesAgree() ? 1 : 0;
        within += verified->executedPeak <= planned.plan.budget ? 1 : 0;
        const double part = static_cast<double>(verified->largestDifference)
            / static_cast<double>(std::max<Bytes>(verified->executedPeak, 1));
        largest = std::max(largest, part);
        if (first.empty())
            first = verified->firstDifference;
    }
    std::cout << file.filename().string() << ": " << within << " of " << budgets << " within the budget, " << equal
              << " timelines equal to the byte";
    if (!first.empty())
        std::cout << ", at most " << largest * 100 << " % apart: " << first;
    std::cout << std::endl;
    EXPECT_EQ(within, budgets);
    EXPECT_EQ(first, "");
}

TEST(VerifyModels, ModelsOfTheTestsAtTenBudgets)
{
    sim::initialize(*findDeviceSpec("h100-80gb"));
    const fs::path data = HEADROOM_TEST_DATA;
    std::vector<fs::path> files{data / "models/torchscript/ts_trace_gpt2_tiny.pt",
                                data / "models/torchscript/ts_trace_transformer_tiny.pt"};
    addModels(data / "exported", files);
    // The simulated device has no numbers for the sizes that this one computes: its step cannot be recorded.
    std::erase_if(files, [](const fs::path& file) { return file.filename() == "dynamic.pt2"; });
    ASSERT_GT(files.size(), 5U);
    for (const fs::path& file : files) {
        SCOPED_TRACE(file.string());
        verifyAtTenBudgets(file);
    }
}

TEST(VerifyModels, EveryFileOfAFolderAtTenBudgets)
{
    const char* folder = std::getenv("HEADROOM_TEST_MODELS");
    if (!folder)
        GTEST_SKIP() << "HEADROOM_TEST_MODELS names no folder with .pt2 or .pt files";
    sim::initialize(*findDeviceSpec("h100-80gb"));
    std::vector<fs::path> files;
    addModels(folder, files);
    for (const fs::path& file : files) {
        SCOPED_TRACE(file.string());
        verifyAtTenBudgets(file);
    }
}

} // namespace
} // namespace headroom
