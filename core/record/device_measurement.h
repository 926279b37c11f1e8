// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cupti/step_times.h"
#include "core/device/real_device.h"
#include "core/trace/step_trace_builder.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace headroom {

/// Measures a recorded step on a real device: times, memory, and the trace from which ops get the times of kernels.
/// Calls that take the builder, and calls that number ops and module calls, are made under the recording's lock. The
/// other calls wait for the device and are made without the lock.
class DeviceMeasurement
{
public:
    explicit DeviceMeasurement(std::shared_ptr<RealDevice> device)
        : device_(std::move(device))
    {
    }

    RecordedMemory& memory() { return device_->memory(); }
    void addModule(ModuleId parent) { traced_.parentOf.push_back(parent); }

    /// Starts the step: synchronises the device and drops what was traced before.
    void start(StepTraceBuilder& builder);

    /// Returns the number under which the device traces the op's launches; 0 is no op.
    std::uint64_t beginOp();
    /// Maps a traced number to an op of the step. `moves`: the op moves bytes, so a kernel is expected.
    void endOp(std::uint64_t traced, OpId op, bool moves);
    void addCall(ModuleId module) { traced_.callModule.push_back(module); }

    /// Attributes this thread's launches to the op (module call) until the matching leave.
    void enterOp(std::uint64_t traced) const noexcept { device_->enterOp(traced); }
    void leaveOp() const noexcept { device_->leaveOp(); }
    void enterCall(CallId call) const noexcept { device_->enterCall(call.value); }
    void leaveCall() const noexcept { device_->leaveCall(); }

    /// Bytes on the device beyond PyTorch's allocator, and the storage that stands for the bytes in the step.
    Bytes nonPyTorch() const { return device_->nonPyTorch(); }
    void countNonPyTorch(StepTraceBuilder& builder, Bytes bytes);

    /// Ends the step: synchronises the device and takes the trace.
    void stop();
    /// Adds the ops' measured times to the builder, after stop(). `opModules` is indexed by OpId.
    MeasuredStep addTimes(StepTraceBuilder& builder, const std::vector<ModuleId>& opModules);

private:
    const std::shared_ptr<RealDevice> device_;
    cupti::TracedStep traced_;
    cupti::ActivityLog log_;
    MeasuredStep measured_;
    StorageId nonPyTorch_;
    Bytes nonPyTorchBytes_ = 0;
    std::chrono::steady_clock::time_point begin_;
};

} // namespace headroom
