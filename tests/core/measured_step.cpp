// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/core/measured_step.h"

#include "core/trace/step_trace_builder.h"

#include <memory>
#include <utility>
#include <vector>

namespace headroom {

StepTracePtr makeMeasuredStep(const StepTracePtr& step, const std::string& device,
                              const std::function<double(OpId)>& ms, const std::function<bool(OpId)>& other)
{
    struct Columns
    {
        StepTracePtr step;
        std::vector<double> ms;
        std::vector<std::uint16_t> flags;
        std::vector<StringId> names;
    };
    const auto columns = std::make_shared<Columns>();
    columns->step = step;
    for (std::uint32_t i = 0; i < step->ops.size(); ++i) {
        columns->ms.push_back(ms(OpId(i)));
        columns->flags.push_back(step->ops.flags[OpId(i)] | opMeasured);
        columns->names.push_back(other(OpId(i)) ? step->modules.type[ModuleId(0)] : step->ops.name[OpId(i)]);
    }
    StepTrace measured = *step;
    measured.info.simulated = false;
    measured.info.device = device;
    measured.info.measured.emplace().kernels = static_cast<std::int64_t>(step->ops.size());
    measured.ops.ms.rows = columns->ms;
    measured.ops.flags.rows = columns->flags;
    measured.ops.name.rows = columns->names;
    measured.memory = columns;
    return std::make_shared<const StepTrace>(std::move(measured));
}

StepTracePtr makeStepBesideOthers()
{
    StepTraceBuilder builder;
    const ModuleId net = builder.addModule("Net", "Net", ModuleId());
    builder.alloc(300 * MiB, Category::nonPyTorch, OpId());
    builder.alloc(8 * MiB, Category::parameter, OpId());
    builder.mark(Mark::stepBegin);
    StepTraceBuilder::Op op;
    op.name = builder.string("aten.mm.default");
    op.module = net;
    const OpId made = builder.beginOp(op);
    builder.alloc(2 * MiB, Category::activation, made);
    StepTraceBuilder::OpResult result;
    result.ms = 1;
    builder.endOp(made, result);
    builder.info.simulated = false;
    builder.info.device = "cuda:0";
    builder.info.measured.emplace().kernels = 1;
    return builder.finish().value();
}

} // namespace headroom
