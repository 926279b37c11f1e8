// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/core/measured_step.h"

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

} // namespace headroom
