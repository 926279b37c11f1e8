// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/cupti/fake_cupti.h"

#include "tests/cupti/next_record.h"

#include <cstring>
#include <map>

namespace headroom::cupti {
namespace {

CUptiResult getVersion(std::uint32_t* version)
{
    *version = 130001;
    return CUPTI_SUCCESS;
}

CUptiResult getResultString(CUptiResult result, const char** text)
{
    static const std::map<CUptiResult, const char*> names{
        {CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"},
        {CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"},
        {CUPTI_ERROR_INVALID_KIND, "CUPTI_ERROR_INVALID_KIND"},
        {CUPTI_ERROR_UNKNOWN, "CUPTI_ERROR_UNKNOWN"}};
    const auto found = names.find(result);
    if (found == names.end())
        return CUPTI_ERROR_INVALID_PARAMETER;
    *text = found->second;
    return CUPTI_SUCCESS;
}

CUptiResult registerCallbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete)
{
    FakeCupti& fake = FakeCupti::instance();
    fake.request = request;
    fake.complete = complete;
    return fake.registerResult;
}

CUptiResult enable(CUpti_ActivityKind kind)
{
    FakeCupti& fake = FakeCupti::instance();
    if (kind == fake.refusedKind)
        return fake.refusal;
    fake.enabled.insert(kind);
    return CUPTI_SUCCESS;
}

CUptiResult disable(CUpti_ActivityKind kind)
{
    FakeCupti::instance().enabled.erase(kind);
    return CUPTI_SUCCESS;
}

CUptiResult flushAll(std::uint32_t)
{
    FakeCupti& fake = FakeCupti::instance();
    while (!fake.queued.empty()) {
        std::uint8_t* buffer = nullptr;
        std::size_t size = 0;
        std::size_t records = 0;
        fake.request(&buffer, &size, &records);
        const auto bytes = fake.queued.front().bytes();
        if (!buffer || bytes.size() > size)
            return CUPTI_ERROR_UNKNOWN;
        std::memcpy(buffer, bytes.data(), bytes.size());
        fake.complete(nullptr, 0, buffer, size, bytes.size());
        fake.queued.pop_front();
    }
    return fake.flushResult;
}

CUptiResult getNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped)
{
    *dropped = std::exchange(FakeCupti::instance().dropped, 0);
    return CUPTI_SUCCESS;
}

CUptiResult pushExternalId(CUpti_ExternalCorrelationKind kind, std::uint64_t id)
{
    FakeCupti::instance().calls.push_back("push " + std::to_string(kind) + " " + std::to_string(id));
    return CUPTI_SUCCESS;
}

CUptiResult popExternalId(CUpti_ExternalCorrelationKind kind, std::uint64_t* last)
{
    *last = 0;
    FakeCupti::instance().calls.push_back("pop " + std::to_string(kind));
    return CUPTI_SUCCESS;
}

} // namespace

FakeCupti& FakeCupti::instance()
{
    static FakeCupti fake;
    return fake;
}

CuptiApi FakeCupti::api()
{
    CuptiApi api;
    api.library = "fake";
    api.version = 130001;
    api.getVersion = &headroom::cupti::getVersion;
    api.getResultString = &headroom::cupti::getResultString;
    api.registerCallbacks = &headroom::cupti::registerCallbacks;
    api.enable = &headroom::cupti::enable;
    api.disable = &headroom::cupti::disable;
    api.flushAll = &headroom::cupti::flushAll;
    api.getNextRecord = &nextRecord;
    api.getNumDroppedRecords = &headroom::cupti::getNumDroppedRecords;
    api.pushExternalId = &headroom::cupti::pushExternalId;
    api.popExternalId = &headroom::cupti::popExternalId;
    return api;
}

} // namespace headroom::cupti
