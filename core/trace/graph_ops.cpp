// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/graph_ops.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace headroom {

std::vector<std::uint32_t> graphPlaces(const StepTrace& trace)
{
    std::unordered_map<std::uint32_t, std::uint32_t> placeOfStream; // a capture has a separate stream
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

namespace {

constexpr auto updatingOps
    = std::to_array<std::string_view>({"_batch_norm_with_update", "_native_batch_norm_legit", "batch_norm_gather_stats",
                                       "batch_norm_gather_stats_with_counts", "batch_norm_update_stats",
                                       "cudnn_batch_norm", "miopen_batch_norm", "native_batch_norm"});

/// "cudnn_batch_norm" of "aten.cudnn_batch_norm.default"; empty for ops that are not PyTorch's own.
std::string_view nameInAten(std::string_view opName)
{
    constexpr std::string_view prefix = "aten.";
    if (!opName.starts_with(prefix))
        return {};
    opName.remove_prefix(prefix.size());
    return opName.substr(0, opName.find('.'));
}

} // namespace

bool updatesRunningStatistics(std::string_view opName)
{
    static_assert(std::ranges::is_sorted(updatingOps));
    // Inductor names a kernel by the kernel's ops.
    const bool isKernel = opName.find("triton_") != std::string_view::npos;
    return std::ranges::binary_search(updatingOps, nameInAten(opName))
        || (isKernel && opName.find("batch_norm") != std::string_view::npos);
}

bool isBatchNormBackward(std::string_view opName)
{
    return nameInAten(opName).ends_with("batch_norm_backward");
}

} // namespace headroom
