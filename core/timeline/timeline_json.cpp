// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/timeline/timeline_json.h"

#include "core/trace/out_of_memory.h"

#include <nlohmann/json.hpp>

#include <string>

namespace headroom {

nlohmann::ordered_json toJson(const StepInfo& info, const CategoryBytes& bytes)
{
    auto json = nlohmann::ordered_json::object();
    for (std::size_t category = 0; category < categoriesOf(info); ++category)
        json[std::string(categoryName(static_cast<Category>(category)))] = bytes[category];
    return json;
}

void addAccount(nlohmann::ordered_json& document, const StepInfo& info, const Timeline& timeline)
{
    document["at_peak"] = toJson(info, timeline.atPeak);
    auto& phases = document["phases"] = nlohmann::ordered_json::object();
    for (const Timeline::Snapshot& snapshot : timeline.snapshots)
        phases[std::string(markName(snapshot.mark))] = toJson(info, snapshot.bytes);
}

void addOutOfMemory(nlohmann::ordered_json& document, const StepTrace& step)
{
    for (const OutOfMemory& failure : outOfMemoryEvents(step))
        document["out_of_memory"].push_back({{"instant", failure.ms},
                                             {"module", step.moduleFqn(step.ops.module[failure.op])},
                                             {"requested_bytes", failure.requested},
                                             {"free_bytes", failure.deviceFree},
                                             {"reserved_bytes", failure.reserved},
                                             {"active_bytes", failure.active},
                                             {"reason", whyOutOfMemory(failure)}});
}

} // namespace headroom
