// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/cupti/activity_buffer.h"

namespace headroom::cupti {
namespace {

constexpr auto unknownKind = static_cast<CUpti_ActivityKind>(9999);

template <class Record>
Record recordOf(CUpti_ActivityKind kind)
{
    Record record;
    std::memset(&record, 0x5a, sizeof record); // what is not set must not be read
    record.kind = kind;
    return record;
}

template <class Record>
Record workOf(CUpti_ActivityKind kind, std::uint32_t correlation, std::uint64_t start, std::uint64_t end)
{
    auto record = recordOf<Record>(kind);
    record.correlationId = correlation;
    record.start = start;
    record.end = end;
    record.deviceId = 0;
    record.contextId = 1;
    return record;
}

} // namespace

void ActivityBuffer::kernel(std::uint32_t correlation, std::uint32_t stream, std::uint64_t start, std::uint64_t end,
                            const char* name)
{
    auto record = workOf<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, correlation, start, end);
    record.streamId = stream;
    record.name = name;
    add(record);
}

void ActivityBuffer::copy(std::uint32_t correlation, std::uint32_t stream, std::uint64_t start, std::uint64_t end,
                          std::uint64_t bytes)
{
    auto record = workOf<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, correlation, start, end);
    record.streamId = stream;
    record.bytes = bytes;
    add(record);
}

void ActivityBuffer::copyBetweenGpus(std::uint32_t correlation, std::uint64_t start, std::uint64_t end,
                                     std::uint64_t bytes)
{
    auto record = workOf<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2, correlation, start, end);
    record.streamId = 0;
    record.bytes = bytes;
    add(record);
}

void ActivityBuffer::set(std::uint32_t correlation, std::uint32_t stream, std::uint64_t start, std::uint64_t end,
                         std::uint64_t bytes)
{
    auto record = workOf<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, correlation, start, end);
    record.streamId = stream;
    record.bytes = bytes;
    add(record);
}

void ActivityBuffer::wait(std::uint64_t start, std::uint64_t end)
{
    auto record = recordOf<CUpti_ActivitySynchronization2>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
    record.start = start;
    record.end = end;
    add(record);
}

void ActivityBuffer::overhead(std::uint64_t start, std::uint64_t end)
{
    auto record = recordOf<CUpti_ActivityOverhead3>(CUPTI_ACTIVITY_KIND_OVERHEAD);
    record.start = start;
    record.end = end;
    add(record);
}

void ActivityBuffer::external(CUpti_ExternalCorrelationKind kind, std::uint32_t correlation, std::uint64_t id)
{
    auto record = recordOf<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
    record.externalKind = kind;
    record.correlationId = correlation;
    record.externalId = id;
    add(record);
}

void ActivityBuffer::runtimeCall(std::uint32_t correlation, std::uint32_t thread)
{
    auto record = recordOf<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
    record.correlationId = correlation;
    record.threadId = thread;
    add(record);
}

void ActivityBuffer::unknown()
{
    add(recordOf<CUpti_ActivityAPI>(unknownKind));
}

} // namespace headroom::cupti
