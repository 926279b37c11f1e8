// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cupti/activity_session.h"

#include "core/base/try.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <span>
#include <utility>

namespace headroom::cupti {
namespace {

/// The fields that records of GPU work share under the same names.
template <class Record>
GpuActivity activityOf(const Record& record, GpuActivity::ActivityKind kind)
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
        log_.gpu.push_back(activityOf(kernel, GpuActivity::ActivityKind::kernel));
        log_.gpu.back().name = nameOf(kernel.name);
        return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto& copy = as<CUpti_ActivityMemcpy6>(record);
        log_.gpu.push_back(activityOf(copy, GpuActivity::ActivityKind::memcpy));
        log_.gpu.back().bytes = static_cast<Bytes>(copy.bytes);
        return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
        const auto& copy = as<CUpti_ActivityMemcpyPtoP4>(record);
        log_.gpu.push_back(activityOf(copy, GpuActivity::ActivityKind::memcpy));
        log_.gpu.back().bytes = static_cast<Bytes>(copy.bytes);
        return;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto& set = as<CUpti_ActivityMemset4>(record);
        log_.gpu.push_back(activityOf(set, GpuActivity::ActivityKind::memset));
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
            log_.externals.push_back({ExternalId::IdKind::op, external.correlationId, external.externalId});
        else if (external.externalKind == callKind)
            log_.externals.push_back({ExternalId::IdKind::call, external.correlationId, external.externalId});
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

namespace headroom::cupti {
namespace {

/// CUPTI recommends 1 to 10 MB. A step of a large model makes some ten thousand records of about 200 bytes.
constexpr std::size_t bufferBytes = std::size_t{4} << 20U;
constexpr std::size_t bufferAlignment = 64;
/// Limit for a step with endless launches; further buffers are discarded and counted.
constexpr std::size_t mostBuffers = 256;

struct Buffer
{
    std::uint8_t* begin = nullptr;
    std::size_t validBytes = 0;
};

/// The buffers that CUPTI has filled. Lives as long as the process: CUPTI may return a buffer at any time, also
/// after the session. No function of CUPTI is called under this mutex, since CUPTI calls the
/// store under CUPTI's own mutex.
class BufferStore
{
public:
    static BufferStore& instance()
    {
        static auto* const store = new BufferStore;
        return *store;
    }

    std::uint8_t* give()
    {
        {
            const std::lock_guard lock(mutex_);
            if (!free_.empty()) {
                std::uint8_t* const buffer = free_.back();
                free_.pop_back();
                return buffer;
            }
        }
        return static_cast<std::uint8_t*>(std::aligned_alloc(bufferAlignment, bufferBytes));
    }

    void take(std::uint8_t* buffer, std::size_t validBytes)
    {
        const std::lock_guard lock(mutex_);
        if (wanted_ && validBytes > 0 && full_.size() < mostBuffers) {
            full_.push_back({buffer, validBytes});
            return;
        }
        thrownAway_ += wanted_ && validBytes > 0;
        free_.push_back(buffer);
    }

    void want(bool wanted)
    {
        const std::lock_guard lock(mutex_);
        wanted_ = wanted;
    }

    /// Returns the full buffers in the order of arrival. The caller gives the buffers back with take(…, 0).
    std::vector<Buffer> full()
    {
        const std::lock_guard lock(mutex_);
        return std::exchange(full_, {});
    }

    std::size_t thrownAway()
    {
        const std::lock_guard lock(mutex_);
        return std::exchange(thrownAway_, 0);
    }

private:
    std::mutex mutex_;
    bool wanted_ = false;
    std::vector<Buffer> full_;
    std::vector<std::uint8_t*> free_;
    std::size_t thrownAway_ = 0;
};

void CUPTIAPI bufferRequested(std::uint8_t** buffer, std::size_t* size, std::size_t* maxRecords)
{
    *buffer = BufferStore::instance().give();
    *size = *buffer ? bufferBytes : 0;
    *maxRecords = 0;
}

void CUPTIAPI bufferCompleted(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t validSize)
{
    if (buffer)
        BufferStore::instance().take(buffer, validSize);
}

std::atomic<bool>& sessionRuns()
{
    static std::atomic<bool> runs{false};
    return runs;
}

/// A kind of record. `needed`: times are impossible without the kind. External ids come with the calls of runtime and
/// driver.
struct TracedKind
{
    CUpti_ActivityKind kind;
    bool needed;
    const char* what;
};
constexpr std::array tracedKinds{
    TracedKind{CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, true, "external correlation ids"},
    TracedKind{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, true, "kernels"},
    TracedKind{CUPTI_ACTIVITY_KIND_MEMCPY, true, "copies"},
    TracedKind{CUPTI_ACTIVITY_KIND_MEMSET, true, "fills"},
    TracedKind{CUPTI_ACTIVITY_KIND_RUNTIME, true, "calls of CUDA's runtime"},
    TracedKind{CUPTI_ACTIVITY_KIND_DRIVER, true, "calls of CUDA's driver"},
    TracedKind{CUPTI_ACTIVITY_KIND_MEMCPY2, false, "copies between GPUs"},
    TracedKind{CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, false, "waits for the GPU"},
    TracedKind{CUPTI_ACTIVITY_KIND_OVERHEAD, false, "the cost of tracing"},
};

constexpr std::array externalKinds{opKind, callKind};

} // namespace

Result<std::unique_ptr<ActivitySession>> ActivitySession::start(const CuptiApi& api)
{
    if (sessionRuns().exchange(true))
        return Error{ErrorKind::internal, "the GPU is traced already: end that recording first"};
    std::unique_ptr<ActivitySession> session(new ActivitySession(api));
    BufferStore::instance().want(true);
    // The destructor ends tracing if this fails.
    RETURN_IF_ERROR(session->enableAll());
    return session;
}

ActivitySession::~ActivitySession()
{
    if (!enabled_.empty())
        stop();
    BufferStore& store = BufferStore::instance();
    store.want(false);
    for (const Buffer& buffer : store.full())
        store.take(buffer.begin, 0);
    store.thrownAway();
    sessionRuns() = false;
}

Status ActivitySession::enableAll()
{
    if (const CUptiResult result = api_.registerCallbacks(&bufferRequested, &bufferCompleted); result != CUPTI_SUCCESS)
        return cuptiError(api_, result, "cuptiActivityRegisterCallbacks");
    for (const TracedKind& traced : tracedKinds) {
        const CUptiResult result = api_.enable(traced.kind);
        if (result == CUPTI_SUCCESS) {
            enabled_.push_back(traced.kind);
        } else if (traced.needed) {
            const Error error = cuptiError(api_, result, "cuptiActivityEnable");
            disableAll();
            return error;
        } else {
            notes_.push_back("CUPTI does not trace " + std::string(traced.what)
                             + " here, and the step's numbers leave that out");
        }
    }
    return {};
}

void ActivitySession::disableAll()
{
    for (const CUpti_ActivityKind kind : enabled_)
        api_.disable(kind);
    enabled_.clear();
}

std::uint64_t ActivitySession::droppedByCupti() const
{
    std::size_t dropped = 0; // since the last call
    return api_.getNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS ? dropped : 0;
}

ActivityLog ActivitySession::stop()
{
    // The order is Kineto's: Kineto flushes complete records, then disables tracing.
    ActivityLog log = take();
    disableAll();
    return log;
}

ActivityLog ActivitySession::take()
{
    ActivityLog log;
    if (enabled_.empty())
        return log;
    if (const CUptiResult result = api_.flushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED); result != CUPTI_SUCCESS)
        notes_.push_back(cuptiError(api_, result, "cuptiActivityFlushAll").message);
    log.dropped = droppedByCupti();
    BufferStore& store = BufferStore::instance();
    RecordParser parser(api_, log);
    for (const Buffer& buffer : store.full()) {
        const auto bytes = std::as_writable_bytes(std::span(buffer.begin, buffer.validBytes));
        if (const Status parsed = parser.parse(bytes); !parsed)
            notes_.push_back(parsed.error().message);
        store.take(buffer.begin, 0);
    }
    if (const std::size_t thrown = store.thrownAway(); thrown > 0)
        notes_.push_back("the step made more than " + std::to_string(mostBuffers * bufferBytes / (1U << 20U))
                         + " MiB of records: " + std::to_string(thrown) + " buffers of records were thrown away");
    return log;
}

void ActivitySession::push(int kind, std::uint64_t id) const noexcept
{
    api_.pushExternalId(externalKinds[static_cast<std::size_t>(kind)], id);
}

void ActivitySession::pop(int kind) const noexcept
{
    std::uint64_t last = 0;
    api_.popExternalId(externalKinds[static_cast<std::size_t>(kind)], &last);
}

} // namespace headroom::cupti
