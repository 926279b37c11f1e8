// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/remarks.h"

#include <map>
#include <string_view>
#include <utility>

namespace headroom {

std::vector<FallbackOp> fallbackOps(const StepTrace& step)
{
    std::map<std::pair<std::string_view, std::string_view>, std::int64_t> counts;
    for (std::uint32_t row = 0; row < step.ops.size(); ++row)
        if (const OpId op(row); (step.ops.flags[op] & opFallback) != 0)
            ++counts[{step.opName(op), step.moduleFqn(step.ops.module[op])}];
    std::vector<FallbackOp> fallbacks;
    for (const auto& [where, count] : counts)
        fallbacks.push_back({std::string(where.first), std::string(where.second), count});
    return fallbacks;
}

std::vector<std::string> remarks(const StepTrace& step)
{
    std::vector<std::string> sentences = step.info.remarks;
    for (const FallbackOp& fallback : fallbackOps(step))
        sentences.push_back(fallback.op + " in " + (fallback.module.empty() ? "no module" : fallback.module)
                            + " has no kernel on the simulated GPU and ran " + std::to_string(fallback.count)
                            + " times on zeros to learn its shapes");
    return sentences;
}

} // namespace headroom
