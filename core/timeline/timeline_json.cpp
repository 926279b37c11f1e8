// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/timeline/timeline_json.h"

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

} // namespace headroom
