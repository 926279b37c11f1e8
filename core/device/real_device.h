// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/cost/roofline.h"
#include "core/cupti/activity_log.h"
#include "core/device/recorded_memory.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace headroom {

class MemoryHost;

/// The allocator's account since its peaks were reset.
struct AllocatorPeaks
{
    Bytes requested = 0;
    Bytes allocated = 0;
    Bytes active = 0;
    Bytes reserved = 0;
};

/// A device that computes, as far as the recorder needs it: its memory, its clock, and a trace of what it did. Where
/// tracing is not possible the rest works, and notes() says why.
class RealDevice
{
public:
    virtual ~RealDevice() = default;

    virtual c10::Device device() const = 0;
    virtual const DeviceSpec& spec() const = 0;
    virtual RecordedMemory& memory() = 0;
    virtual void synchronize() = 0;
    /// From now on tensors have their memory through `host`; null: from the allocator itself, as at first.
    virtual void setHost(MemoryHost* host) = 0;

    virtual void resetPeaks() = 0;
    virtual AllocatorPeaks peaks() const = 0;
    /// What the device has in use beyond what PyTorch's allocator reserved: CUDA's context, workspaces, NCCL, and other
    /// programs.
    virtual Bytes nonPyTorch() const = 0;

    /// Starts tracing, unless it runs or failed before; a step before the first recorded one warms it up.
    virtual void startTracing() = 0;
    virtual bool traces() const = 0;
    /// What was traced since the last call. The device is synchronised.
    virtual cupti::ActivityLog takeTrace() = 0;
    virtual void stopTracing() = 0;
    /// Sentences: what could not be traced, and why.
    virtual std::vector<std::string> notes() const = 0;

    /// What this thread launches from now on belongs to op (module call) `id`, until left. They nest.
    virtual void enterOp(std::uint64_t id) noexcept = 0;
    virtual void leaveOp() noexcept = 0;
    virtual void enterCall(std::uint64_t id) noexcept = 0;
    virtual void leaveCall() noexcept = 0;
};

/// The CPU of this machine: ops are timed by the clock, as each has run when it returns.
std::unique_ptr<RealDevice> openCpu();

/// GPU number `index`, through the library of Headroom that is linked to CUDA's half of torch and is loaded only now.
/// Errors (noDevice) are one sentence: no driver, no GPU, a torch without CUDA, …
Result<std::unique_ptr<RealDevice>> openCuda(int index);

} // namespace headroom
