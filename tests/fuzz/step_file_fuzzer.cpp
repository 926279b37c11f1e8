// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/card_memory.h"
#include "core/predict/step_model.h"
#include "core/timeline/pyramid.h"
#include "tests/core/step_bytes.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

using namespace headroom;

/// Any bytes are a step file or an error; any step that opens can be predicted and has workspaces on a card. Checksums
/// are left out, so that changes reach what is behind them. Start from the steps in tests/data and resources/samples.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const StepBytes bytes(std::as_bytes(std::span(data, size)));
    const auto opened = bytes.open(stepformat::Checksums::ignore);
    if (!opened)
        return 0;
    const StepModel model(*opened);
    const StepTrace& trace = **opened;
    for (std::uint32_t module = 0; module < trace.modules.size(); ++module) {
        for (const auto& save : {std::vector<bool>(), model.savableOps(ModuleId(module))}) {
            // A plan may be refused, as when a module calls itself; it may not end with other bytes than the step.
            const auto timeline = model.predict({{ModuleId(module), save}});
            if (timeline && timeline->start != model.recorded()->start)
                std::abort();
        }
    }
    if (workspacesOf(trace, *findDeviceSpec("h100-80gb")).mostScratch() < 0)
        std::abort();
    const TimelinePyramid pyramid(model.recorded());
    if (pyramid.columns(0, model.recorded()->durationMs, 16).size() != 16)
        std::abort();
    return 0;
}
