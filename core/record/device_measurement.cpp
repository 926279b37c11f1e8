// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/device_measurement.h"

#include "core/base/elapsed.h"

#include <algorithm>

namespace headroom {

void DeviceMeasurement::start(StepTraceBuilder& builder)
{
    device_->synchronize();
    device_->takeTrace(); // drops earlier work
    device_->resetPeaks();
    countNonPyTorch(builder, device_->nonPyTorch());
    traced_.opOf.assign(1, OpId());
    begin_ = std::chrono::steady_clock::now();
}

std::uint64_t DeviceMeasurement::beginOp()
{
    traced_.opOf.emplace_back(); // set by endOp()
    return traced_.opOf.size() - 1;
}

void DeviceMeasurement::endOp(std::uint64_t traced, OpId op, bool moves)
{
    traced_.opOf[traced] = op;
    traced_.moves.resize(std::max(traced_.moves.size(), op.value + std::size_t{1}));
    traced_.moves[op.value] = moves;
}

void DeviceMeasurement::countNonPyTorch(StepTraceBuilder& builder, Bytes bytes)
{
    if (bytes == nonPyTorchBytes_)
        return;
    nonPyTorchBytes_ = bytes;
    if (nonPyTorch_.valid())
        builder.resize(nonPyTorch_, bytes);
    else
        nonPyTorch_ = builder.alloc(bytes, Category::nonPyTorch, OpId());
}

void DeviceMeasurement::stop()
{
    device_->synchronize();
    measured_.stepMs = elapsedMs(begin_);
    const AllocatorPeaks peaks = device_->peaks();
    measured_.requestedPeak = peaks.requested;
    measured_.allocatedPeak = peaks.allocated;
    measured_.activePeak = peaks.active;
    measured_.reservedPeak = peaks.reserved;
    measured_.nonPyTorch = device_->nonPyTorch();
    log_ = device_->takeTrace();
    measured_.notes = device_->notes();
}

MeasuredStep DeviceMeasurement::addTimes(StepTraceBuilder& builder, const std::vector<ModuleId>& opModules)
{
    traced_.moves.resize(builder.opCount());
    traced_.moduleOf = opModules;
    cupti::addTimes(log_, traced_, builder, measured_);
    return std::move(measured_);
}

} // namespace headroom
