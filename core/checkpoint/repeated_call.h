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

/// Ops that this thread calls while it lives are bookkeeping: neither recorded, nor differentiated, nor counted.
class Unseen
{
public:
    Unseen();

private:
    at::AutoDispatchBelowADInplaceOrView below_;
    c10::impl::ExcludeDispatchKeyGuard interception_;
    sim::HostedMemory::Uncounted uncounted_;
};

/// One call of an op, remembered so that it can be made a second time: its arguments, of which tensors that the step
/// made are only shapes, and what else decides its results (the generator's state). The others among its tensors are
/// held: parameters, buffers and inputs, which the program holds anyway, and numbers, of which a copy will do.
class RepeatedCall
{
public:
    /// The value of a tensor that the step made; invalid: it is another one's.
    using ValueOf = std::function<ValueId(const at::Tensor& tensor)>;
    using StorageOf = std::function<c10::Storage(ValueId value)>;

    /// `facts`, the op's, outlive it.
    RepeatedCall(const c10::OperatorHandle& op, const OpFacts& facts, const torch::jit::Stack& stack, bool random,
                 const ValueOf& valueOf);

    /// Runs it, below autograd. What it changes and did not make itself (running statistics) is put back afterwards.
    /// Gives its results; `flops` are counted on the way. Throws CheckpointError where an argument was changed since.
    torch::jit::Stack runAgain(const StorageOf& storageOf, double& flops) const;

private:
    struct Argument
    {
        ValueId value;
        std::uint32_t version = 0; ///< of a tensor that is held, and that the op does not change itself
        bool changes = false; ///< the op writes to it
    };

    c10::OperatorHandle op_;
    const OpFacts& facts_;
    torch::jit::Stack stack_;
    std::vector<Argument> tensors_; ///< in the order of the stack
    std::optional<AmbientState> ambient_;
};

} // namespace headroom
