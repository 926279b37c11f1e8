// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/graph_ops.h"

#include <unordered_map>

namespace headroom {

std::vector<std::uint32_t> graphPlaces(const StepTrace& trace)
{
    std::unordered_map<std::uint32_t, std::uint32_t> placeOfStream; // a capture has its own stream
    for (const std::uint32_t place : trace.storages.stream.rows)
        if (poolOfPlace(place) != 0 && streamOfPlace(place) != 0)
            placeOfStream[streamOfPlace(place)] = place;
    std::vector<std::uint32_t> places;
    if (placeOfStream.empty())
        return places;
    for (const std::uint32_t stream : trace.ops.stream.rows) {
        const auto found = placeOfStream.find(stream);
        places.push_back(found == placeOfStream.end() ? 0 : found->second);
    }
    return places;
}

} // namespace headroom
