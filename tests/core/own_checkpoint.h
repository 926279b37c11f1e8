// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <memory>
#include <string_view>
#include <vector>

namespace headroom {

/// The step with an op of backward that counts as one of `module` that runs again: what is around that module has a
/// checkpoint of the program's own inside.
inline StepTracePtr withOwnCheckpoint(const StepTracePtr& plain, std::string_view module)
{
    struct Columns
    {
        std::vector<std::uint16_t> flags;
        std::vector<CallId> calls;
        StepTracePtr plain;
    };
    const auto columns = std::make_shared<Columns>(Columns{
        {plain->ops.flags.begin(), plain->ops.flags.end()}, {plain->ops.call.begin(), plain->ops.call.end()}, plain});
    CallId call(0U);
    while (plain->moduleFqn(plain->calls.module[call]) != module)
        ++call.value;
    OpId op(0U);
    while (plain->ops.phase[op] != Phase::backward)
        ++op.value;
    columns->flags[op.value] |= opRecomputed;
    columns->calls[op.value] = call;
    auto trace = std::make_shared<StepTrace>(*plain);
    trace->ops.flags.rows = columns->flags;
    trace->ops.call.rows = columns->calls;
    trace->memory = columns;
    return trace;
}

} // namespace headroom
