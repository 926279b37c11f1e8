// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/cost/roofline.h"
#include "core/cupti/activity_log.h"
#include "core/device/addressed_memory.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace headroom {

class MemoryHost;

/// Peaks in bytes of the allocator's statistics since the last reset.
struct AllocatorPeaks
{
    Bytes requested = 0;
    Bytes allocated = 0;
    Bytes active = 0;
    Bytes reserved = 0;
};

/// A device that really computes, as the recorder uses the device: memory, clock and a trace of activity. Where tracing
/// is impossible everything else works, and notes() says why.
class RealDevice
{
public:
    virtual ~RealDevice() = default;

    virtual c10::Device device() const = 0;
    virtual const DeviceSpec& spec() const = 0;
    virtual RecordedMemory& memory() = 0;
    virtual void synchronize() = 0;
    /// Routes all later allocations through `host`; null, as at first: the allocator itself.
    virtual void setHost(MemoryHost* host) = 0;

    virtual void resetPeaks() = 0;
    virtual AllocatorPeaks peaks() const = 0;
    /// Bytes in use on the device besides the memory that PyTorch's allocator reserved: CUDA's context, workspaces,
    /// NCCL and other programs.
    virtual Bytes nonPyTorch() const = 0;

    /// Starts tracing, unless tracing already runs or failed before. The step before the first recorded step is the
    /// warm-up.
    virtual void startTracing() = 0;
    virtual bool traces() const = 0;
    /// Synchronises the device and returns what was traced since the last call.
    virtual cupti::ActivityLog takeTrace() = 0;
    virtual void stopTracing() = 0;
    /// Sentences that say what could not be traced, and why.
    virtual std::vector<std::string> notes() const = 0;

    /// Attributes this thread's launches to op `id` (enterOp) or module call `id` (enterCall), until the matching
    /// leave. Scopes nest.
    virtual void enterOp(std::uint64_t id) noexcept = 0;
    virtual void leaveOp() noexcept = 0;
    virtual void enterCall(std::uint64_t id) noexcept = 0;
    virtual void leaveCall() noexcept = 0;
};

/// Opens this machine's CPU. Ops are timed by the clock, since each op has finished at its return.
std::unique_ptr<RealDevice> openCpu();

/// Opens GPU `index` through Headroom's library that links to the CUDA part of torch; the library is loaded by this
/// call. Error (noDevice), "no GPU can be used: …" with the cause: a build without CUDA, a library that does not load,
/// no driver, no GPU, …
Result<std::unique_ptr<RealDevice>> openCuda(int index);

} // namespace headroom
