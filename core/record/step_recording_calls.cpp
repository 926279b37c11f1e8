// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
//
// The part of StepRecording for calls of modules: begin and end, in forward and in backward.
#include "core/record/step_recording.h"

#include <torch/csrc/autograd/graph_task.h>

namespace headroom {

CallId StepRecording::enter(ModuleId module, at::ArrayRef<at::Tensor> arguments)
{
    CallId call;
    const auto node = torch::autograd::get_current_node();
    const bool again = node != nullptr;
    const bool own = again && isOwnForward(pythonNameOf(*node));
    {
        const std::lock_guard lock(mutex_);
        call = builder_.enter(module, storagesOf(arguments));
        calls_.push_back({call, module, again, own});
        callsAgain_ += again ? 1 : 0;
        ownCallsAgain_ += own ? 1 : 0;
        if (measurement_)
            measurement_->addCall(module);
    }
    if (measurement_)
        measurement_->enterCall(call);
    return call;
}

void StepRecording::addHeld(CallId call, at::ArrayRef<at::Tensor> tensors, at::IntArrayRef places)
{
    const std::lock_guard lock(mutex_);
    if (calls_.empty() || calls_.back().call != call)
        return;
    for (std::size_t i = 0; i < tensors.size(); ++i)
        if (const StorageId storage = storageOf(tensors[i]))
            heldArguments_.add(call, calls_.back().module, storage, places[i]);
}

void StepRecording::removeHeld(CallId call, at::IntArrayRef places)
{
    const std::lock_guard lock(mutex_);
    for (const std::int64_t place : places)
        heldArguments_.remove(call, place);
}

void StepRecording::exit(CallId call, at::ArrayRef<at::Tensor> results)
{
    if (measurement_)
        measurement_->leaveCall();
    const std::lock_guard lock(mutex_);
    heldArguments_.leave(call);
    builder_.exit(call, storagesOf(results));
    if (!calls_.empty() && calls_.back().call == call) {
        callsAgain_ -= calls_.back().again ? 1 : 0;
        ownCallsAgain_ -= calls_.back().own ? 1 : 0;
        calls_.pop_back();
    }
}

void StepRecording::backwardEnter(CallId call)
{
    const std::lock_guard lock(mutex_);
    builder_.backwardEnter(call);
}

void StepRecording::backwardExit(CallId call)
{
    const std::lock_guard lock(mutex_);
    builder_.backwardExit(call);
}

void StepRecording::exitAfterBackward(CallId call)
{
    const std::lock_guard lock(mutex_);
    exitAfterBackward_.push_back(call);
}

bool StepRecording::takeCallsToExit(std::vector<CallId>& calls)
{
    const std::lock_guard lock(mutex_);
    if (exitsQueued_)
        return false;
    exitsQueued_ = true;
    calls.assign(exitAfterBackward_.rbegin(), exitAfterBackward_.rend());
    exitAfterBackward_.clear();
    return true;
}

void StepRecording::backwardPassEnded()
{
    const std::lock_guard lock(mutex_);
    exitsQueued_ = false;
}

} // namespace headroom
