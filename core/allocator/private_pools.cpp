// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/allocator/private_pools.h"

#include "core/trace/graph_ops.h"

#include <sstream>
#include <string>
#include <vector>

namespace headroom {
namespace {

struct PoolSegment
{
    std::uint32_t place = 0;
    bool small = false;
    Bytes bytes = 0;
};

std::vector<PoolSegment> privateSegments(const StepInfo& info)
{
    std::vector<PoolSegment> segments;
    std::istringstream text{std::string(info.setting(privatePoolsSetting))};
    std::string kind;
    char colon = 0;
    for (PoolSegment segment;
         text >> segment.place >> colon && std::getline(text, kind, ':') && text >> segment.bytes;) {
        segment.small = kind == "small";
        if (poolOfPlace(segment.place) != 0 && segment.bytes > 0)
            segments.push_back(segment);
    }
    return segments;
}

} // namespace

void addPrivatePools(CachingAllocator& allocator, const StepInfo& info)
{
    constexpr CachingAllocator::Block gap = 512; // keeps the segments apart
    CachingAllocator::Block address = 0;
    for (const PoolSegment& pool : privateSegments(info)) {
        const CachingAllocator::Segment::Part part{address, pool.bytes, 0, false};
        allocator.addSegment({pool.place, {0, poolOfPlace(pool.place)}, pool.small, false, address, {&part, 1}});
        address += static_cast<CachingAllocator::Block>(pool.bytes) + gap;
    }
}

Bytes privatePoolBytes(const StepInfo& info)
{
    Bytes bytes = 0;
    for (const PoolSegment& pool : privateSegments(info))
        bytes += pool.bytes;
    return bytes;
}

} // namespace headroom
