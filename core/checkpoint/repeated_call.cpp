// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/repeated_call.h"

#include "core/checkpoint/selective_cache.h"
#include "core/device/boxed_values.h"
#include "core/record/op_cost.h"
#include "core/record/shadow_save.h"

#include <ATen/core/grad_mode.h>

#include <utility>

namespace headroom {
namespace {

constexpr c10::DispatchKey interceptionKey = c10::DispatchKey::Fake; // core/record/interceptor.cpp

/// Returns a tensor that keeps an argument. A number is copied, since the program frees it after the op.
at::Tensor heldArgument(const at::Tensor& tensor)
{
    if (!tensor.unsafeGetTensorImpl()->is_wrapped_number())
        return detached(tensor, /*allowMetadataChange=*/true);
    at::Tensor copy = tensor.clone();
    copy.unsafeGetTensorImpl()->set_wrapped_number(true);
    return copy;
}

/// Whether an op changes its argument. The schema of batch normalisation does not mark its running statistics.
bool isChanged(const c10::OperatorHandle& op, const OpFacts& facts, std::size_t argument)
{
    return facts.written[argument] || op.schema().arguments()[argument].name().starts_with("running_");
}

/// Keeps the contents of tensors that an op changes. The destructor restores them, also after an exception.
class Restore
{
public:
    Restore() = default;
    Restore(const Restore&) = delete;
    Restore& operator=(const Restore&) = delete;
    ~Restore()
    {
        const Unseen unseen;
        for (const auto& [tensor, content] : contents_)
            tensor.copy_(content);
    }
    void add(const at::Tensor& tensor)
    {
        const Unseen unseen;
        contents_.emplace_back(tensor,
                               tensor.to(at::kCPU, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true));
    }

private:
    std::vector<std::pair<at::Tensor, at::Tensor>> contents_;
};

} // namespace

Unseen::Unseen()
    : interception_(interceptionKey)
{
}

RepeatedCall::RepeatedCall(const c10::OperatorHandle& op, const OpFacts& facts, const torch::jit::Stack& stack,
                           bool random, const ValueOf& valueOf)
    : op_(op)
    , facts_(facts)
    , stack_(stack.end() - static_cast<std::ptrdiff_t>(facts.arguments), stack.end())
{
    const Unseen unseen;
    Values tensors;
    for (std::size_t i = 0; i < stack_.size(); ++i) {
        if (random && stack_[i].isGenerator())
            stack_[i] = stack_[i].toGenerator().clone();
        mapTensors(stack_[i], [&](const at::Tensor& tensor) {
            const ValueId value = valueOf(tensor);
            tensors_.push_back(
                {value, tensor.unsafeGetTensorImpl()->version_counter().current_version(), isChanged(op, facts, i)});
            tensors.emplace_back(tensor);
            return value.valid() ? shapeOf(tensor) : heldArgument(tensor);
        });
    }
    if (random)
        ambient_.emplace(tensors, true);
}

torch::jit::Stack RepeatedCall::runAgain(const StorageOf& storageOf, double& flops) const
{
    torch::jit::Stack stack = stack_;
    Restore restore;
    auto argument = tensors_.begin();
    for (c10::IValue& value : stack) {
        if (value.isGenerator())
            value = value.toGenerator().clone();
        mapTensors(value, [&](const at::Tensor& tensor) {
            const auto& [made, version, changes] = *argument++;
            if (made.valid())
                return onStorage(tensor, storageOf(made));
            const bool number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
            if (changes)
                restore.add(tensor);
            else if (!number && tensor._version() != version)
                throw CheckpointError("`" + facts_.name
                                      + "` cannot run again: an argument that was there before the "
                                        "step was changed in place after the op had read it");
            return tensor;
        });
    }
    OpCost cost;
    cost.addInputs(facts_, stack);
    std::optional<AmbientState::Replay> ambience;
    if (ambient_) {
        const Unseen unseen;
        ambience.emplace(*ambient_);
    }
    {
        const at::AutoGradMode gradients(true); // marks a recomputation for the recorder
        const at::AutoDispatchBelowADInplaceOrView below;
        // Autocast's casts are repeated as calls. The guard is inside the replay, which changes autocast's state.
        const c10::impl::ExcludeDispatchKeyGuard autocast(c10::autocast_dispatch_keyset);
        op_.callBoxed(stack);
    }
    {
        const Unseen unseen;
        ambience.reset();
    }
    cost.addOutputs(facts_, stack);
    flops += cost.flops(facts_);
    return stack;
}

} // namespace headroom
