// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
//
// CUPTI's activity API for the GPU that is not there, as a driver's would behave that is not kind: buffers come from
// another thread, the last first, a record at a time in no order; HEADROOM_STAND_IN_CUPTI_ERROR=FUNCTION:CODE lets one
// function fail, HEADROOM_STAND_IN_CUPTI_DROPS=N leaves out every n-th record and says so.
#include "tests/cuda/stand_in.h"
#include "tests/cupti/next_record.h"

#include <cupti.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

using Bytes = std::vector<std::uint8_t>;

struct Cupti
{
    std::mutex mutex;
    CUpti_BuffersCallbackRequestFunc request = nullptr;
    CUpti_BuffersCallbackCompleteFunc complete = nullptr;
    std::set<int> enabled;
    std::vector<Bytes> records;
    std::size_t made = 0;
    std::size_t dropped = 0;
    std::uint32_t correlation = 0;
};

Cupti& cupti()
{
    static auto* const cupti = new Cupti;
    return *cupti;
}

/// By kind: what this thread pushed.
std::map<int, std::vector<std::uint64_t>>& pushed()
{
    static thread_local std::map<int, std::vector<std::uint64_t>> ids;
    return ids;
}

CUptiResult failureOf(const char* function)
{
    const char* const given = std::getenv("HEADROOM_STAND_IN_CUPTI_ERROR");
    const std::string wanted = given ? given : "";
    const std::size_t colon = wanted.find(':');
    return colon != std::string::npos && wanted.substr(0, colon) == function
        ? static_cast<CUptiResult>(std::stoi(wanted.substr(colon + 1)))
        : CUPTI_SUCCESS;
}

template <class Record>
void add(Cupti& state, CUpti_ActivityKind kind, Record record)
{
    static const int drops = [] {
        const char* const given = std::getenv("HEADROOM_STAND_IN_CUPTI_DROPS");
        return given ? std::atoi(given) : 0;
    }();
    if (!state.enabled.contains(kind))
        return;
    if (drops > 0 && ++state.made % static_cast<std::size_t>(drops) == 0) {
        ++state.dropped;
        return;
    }
    record.kind = kind;
    Bytes bytes(sizeof record);
    std::memcpy(bytes.data(), &record, sizeof record);
    state.records.push_back(std::move(bytes));
}

/// Half of them in a buffer, the others in the next, those behind first.
void deliver(std::vector<Bytes> records, CUpti_BuffersCallbackRequestFunc request,
             CUpti_BuffersCallbackCompleteFunc complete)
{
    std::ranges::reverse(records);
    while (!records.empty()) {
        std::uint8_t* buffer = nullptr;
        std::size_t size = 0;
        std::size_t most = 0;
        request(&buffer, &size, &most);
        if (!buffer)
            return;
        std::size_t filled = 0;
        std::vector<Bytes> left;
        for (std::size_t i = 0; i < records.size(); ++i) {
            if ((i % 2 != 0 && records.size() > 2) || filled + records[i].size() > size) {
                left.push_back(std::move(records[i]));
                continue;
            }
            std::memcpy(buffer + filled, records[i].data(), records[i].size());
            filled += records[i].size();
        }
        complete(nullptr, 0, buffer, size, filled);
        records = std::move(left);
    }
}

} // namespace

namespace standin {

void launched(const Work& work)
{
    Cupti& state = cupti();
    const std::lock_guard lock(state.mutex);
    const std::uint32_t correlation = ++state.correlation;
    for (const auto& [kind, ids] : pushed()) {
        if (ids.empty())
            continue;
        CUpti_ActivityExternalCorrelation external{};
        external.externalKind = static_cast<CUpti_ExternalCorrelationKind>(kind);
        external.externalId = ids.back();
        external.correlationId = correlation;
        add(state, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, external);
    }
    CUpti_ActivityAPI call{};
    call.correlationId = correlation;
    add(state, CUPTI_ACTIVITY_KIND_RUNTIME, call);
    const auto fill = [&](auto record) {
        record.start = work.start;
        record.end = work.end;
        record.contextId = 1;
        record.streamId = work.stream;
        record.correlationId = correlation;
        return record;
    };
    if (work.kind == Work::Kind::kernel) {
        auto kernel = fill(CUpti_ActivityKernel10{});
        kernel.name = work.name;
        add(state, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, kernel);
    } else if (work.kind == Work::Kind::memcpy) {
        auto copy = fill(CUpti_ActivityMemcpy6{});
        copy.bytes = work.bytes;
        add(state, CUPTI_ACTIVITY_KIND_MEMCPY, copy);
    } else {
        auto set = fill(CUpti_ActivityMemset4{});
        set.bytes = work.bytes;
        add(state, CUPTI_ACTIVITY_KIND_MEMSET, set);
    }
}

void waited(std::uint64_t from, std::uint64_t to)
{
    Cupti& state = cupti();
    const std::lock_guard lock(state.mutex);
    CUpti_ActivitySynchronization2 wait{};
    wait.start = from;
    wait.end = to;
    add(state, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, wait);
}

} // namespace standin

extern "C" {

CUptiResult cuptiGetVersion(std::uint32_t* version)
{
    *version = CUPTI_API_VERSION;
    return failureOf("cuptiGetVersion");
}
CUptiResult cuptiGetResultString(CUptiResult, const char** text)
{
    *text = "CUPTI_ERROR_OF_THE_STAND_IN";
    return CUPTI_SUCCESS;
}
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain, std::uint32_t, const char** name)
{
    *name = "callback_of_the_stand_in";
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete)
{
    if (const CUptiResult failure = failureOf("cuptiActivityRegisterCallbacks"))
        return failure;
    Cupti& state = cupti();
    const std::lock_guard lock(state.mutex);
    state.request = request;
    state.complete = complete;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    if (const CUptiResult failure = failureOf("cuptiActivityEnable"))
        return failure;
    Cupti& state = cupti();
    const std::lock_guard lock(state.mutex);
    state.enabled.insert(kind);
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
    Cupti& state = cupti();
    const std::lock_guard lock(state.mutex);
    state.enabled.erase(kind);
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(std::uint32_t)
{
    Cupti& state = cupti();
    std::vector<Bytes> records;
    {
        const std::lock_guard lock(state.mutex);
        records.swap(state.records);
    }
    std::thread(deliver, std::move(records), state.request, state.complete).join();
    return failureOf("cuptiActivityFlushAll");
}
CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t bytes, CUpti_Activity** record)
{
    return headroom::cupti::nextRecord(buffer, bytes, record);
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped)
{
    Cupti& state = cupti();
    const std::lock_guard lock(state.mutex);
    *dropped = state.dropped;
    state.dropped = 0;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t id)
{
    pushed()[kind].push_back(id);
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t* last)
{
    std::vector<std::uint64_t>& ids = pushed()[kind];
    if (ids.empty())
        return CUPTI_ERROR_QUEUE_EMPTY;
    if (last)
        *last = ids.back();
    ids.pop_back();
    return CUPTI_SUCCESS;
}

// What else Kineto asks for, which is in the process with libtorch.
CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(std::uint8_t)
{
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId, std::uint8_t)
{
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId, std::uint8_t)
{
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc)
{
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, std::size_t*, void*)
{
    return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableCallback(std::uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId)
{
    return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableDomain(std::uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain)
{
    return CUPTI_SUCCESS;
}
CUptiResult cuptiFinalize()
{
    return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*)
{
    return CUPTI_SUCCESS;
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle)
{
    return CUPTI_SUCCESS;
}
} // extern "C"
