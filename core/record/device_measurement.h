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

/// What a real device adds to a step while it is recorded: its clock, its account of memory, and the trace from which
/// ops get the times of their kernels. Calls that take the builder, and those that number ops and calls, come under the
/// recording's lock; the others wait for the device and come without it.
class DeviceMeasurement
{
public:
    explicit DeviceMeasurement(std::shared_ptr<RealDevice> device)
        : device_(std::move(device))
    {
    }

    RecordedMemory& memory() { return device_->memory(); }
    void addModule(ModuleId parent) { traced_.parentOf.push_back(parent); }

    /// The step begins: the device is synchronised, what was traced before is dropped.
    void start(StepTraceBuilder& builder);

    /// The number under which the device traces what the op launches. 0 is no op.
    std::uint64_t beginOp();
    /// Which op of the step it became. `moves`: it moves bytes, so that it should have a kernel.
    void endOp(std::uint64_t traced, OpId op, bool moves);
    void addCall(ModuleId module) { traced_.callModule.push_back(module); }

    /// What this thread launches belongs to the op (module call), until left.
    void enterOp(std::uint64_t traced) const noexcept { device_->enterOp(traced); }
    void leaveOp() const noexcept { device_->leaveOp(); }
    void enterCall(CallId call) const noexcept { device_->enterCall(call.value); }
    void leaveCall() const noexcept { device_->leaveCall(); }

    /// Memory of the device beyond PyTorch's allocator, and its row in the step.
    Bytes nonPyTorch() const { return device_->nonPyTorch(); }
    void countNonPyTorch(StepTraceBuilder& builder, Bytes bytes);

    /// The step has ended: the device is synchronised, its trace taken.
    void stop();
    /// After stop(): gives the ops their times. `opModules` by OpId.
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
