// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cupti/record_parser.h"

#include <cstdint>

namespace headroom::cupti {
namespace {

/// The fields that records of GPU work share under the same names.
template <class Record>
GpuActivity activityOf(const Record& record, GpuActivity::Kind kind)
{
    GpuActivity activity;
    activity.kind = kind;
    activity.correlation = record.correlationId;
    activity.device = record.deviceId;
    activity.context = record.contextId;
    activity.stream = record.streamId;
    activity.start = record.start;
    activity.end = record.end;
    return activity;
}

template <class Record>
const Record& as(const CUpti_Activity& record)
{
    return reinterpret_cast<const Record&>(record);
}

} // namespace

Status RecordParser::parse(std::span<std::byte> buffer)
{
    CUpti_Activity* record = nullptr;
    for (;;) {
        const CUptiResult result
            = api_.getNextRecord(reinterpret_cast<std::uint8_t*>(buffer.data()), buffer.size(), &record);
        if (result == CUPTI_ERROR_MAX_LIMIT_REACHED)
            return {};
        if (result != CUPTI_SUCCESS)
            return cuptiError(api_, result, "cuptiActivityGetNextRecord");
        add(*record);
    }
}

void RecordParser::add(const CUpti_Activity& record)
{
    switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto& kernel = as<CUpti_ActivityKernel10>(record);
        log_.gpu.push_back(activityOf(kernel, GpuActivity::Kind::kernel));
        log_.gpu.back().name = nameOf(kernel.name);
        return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto& copy = as<CUpti_ActivityMemcpy6>(record);
        log_.gpu.push_back(activityOf(copy, GpuActivity::Kind::memcpy));
        log_.gpu.back().bytes = static_cast<Bytes>(copy.bytes);
        return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
        const auto& copy = as<CUpti_ActivityMemcpyPtoP4>(record);
        log_.gpu.push_back(activityOf(copy, GpuActivity::Kind::memcpy));
        log_.gpu.back().bytes = static_cast<Bytes>(copy.bytes);
        return;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto& set = as<CUpti_ActivityMemset4>(record);
        log_.gpu.push_back(activityOf(set, GpuActivity::Kind::memset));
        log_.gpu.back().bytes = static_cast<Bytes>(set.bytes);
        return;
    }
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: {
        const auto& wait = as<CUpti_ActivitySynchronization2>(record);
        log_.synchronizations.push_back({wait.start, wait.end});
        return;
    }
    case CUPTI_ACTIVITY_KIND_OVERHEAD: {
        const auto& overhead = as<CUpti_ActivityOverhead3>(record);
        log_.overheads.push_back({overhead.start, overhead.end});
        return;
    }
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const auto& external = as<CUpti_ActivityExternalCorrelation>(record);
        if (external.externalKind == opKind)
            log_.externals.push_back({ExternalId::Kind::op, external.correlationId, external.externalId});
        else if (external.externalKind == callKind)
            log_.externals.push_back({ExternalId::Kind::call, external.correlationId, external.externalId});
        return;
    }
    default:
        return;
    }
}

std::uint32_t RecordParser::nameOf(const char* name)
{
    if (!name)
        return 0;
    const auto [entry, isNew] = names_.try_emplace(name, static_cast<std::uint32_t>(log_.names.size()));
    if (isNew)
        log_.names.emplace_back(name);
    return entry->second;
}

} // namespace headroom::cupti
