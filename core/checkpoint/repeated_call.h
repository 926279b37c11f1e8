// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/checkpoint/ambient_state.h"
#include "core/device/hosted_memory.h"
#include "core/joint/joint_graph.h"
#include "core/record/op_facts.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <functional>
#include <optional>
#include <vector>

namespace headroom {

/// While it lives, ops of this thread are bookkeeping: they are not recorded, differentiated or counted.
class Unseen
{
public:
    Unseen();

private:
    at::AutoDispatchBelowADInplaceOrView below_;
    c10::impl::ExcludeDispatchKeyGuard interception_;
    sim::HostedMemory::Uncounted uncounted_;
};

/// One call of an op that can run a second time: its arguments, and the generator's state. Of tensors that the step
/// made only the shapes are kept. Other tensors are held: parameters, buffers and inputs, which the program holds
/// anyway, and copies of numbers.
class RepeatedCall
{
public:
    /// Returns the value of a tensor that the step made; invalid for any other tensor.
    using ValueOf = std::function<ValueId(const at::Tensor& tensor)>;
    using StorageOf = std::function<c10::Storage(ValueId value)>;

    /// `facts` are those of the op and must outlive this object.
    RepeatedCall(const c10::OperatorHandle& op, const OpFacts& facts, const torch::jit::Stack& stack, bool random,
                 const ValueOf& valueOf);

    /// Runs the call again below autograd and returns its results. Its changes of held tensors (running statistics) are
    /// undone afterwards. Adds the call's flops to `flops`. Throws CheckpointError if an argument was changed since the
    /// first call.
    torch::jit::Stack runAgain(const StorageOf& storageOf, double& flops) const;

private:
    struct Argument
    {
        ValueId value; ///< invalid: the tensor is held
        std::uint32_t version = 0; ///< version of a held tensor, which is checked unless the op writes to it
        bool changes = false; ///< the op writes to the tensor
    };

    c10::OperatorHandle op_;
    const OpFacts& facts_;
    torch::jit::Stack stack_;
    std::vector<Argument> tensors_; ///< in the order of the stack
    std::optional<AmbientState> ambient_;
};

} // namespace headroom
