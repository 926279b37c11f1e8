// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/checkpoint.h"

#include "core/record/shadow_save.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>

namespace headroom {

CheckpointScope::CheckpointScope(RegionFunction recompute, const Values& inputs, const CheckpointOptions& options)
{
    if (!at::GradMode::is_enabled())
        return;
    frame_ = std::make_shared<CheckpointFrame>(std::move(recompute), inputs, options);
    if (options.save) {
        caching_.emplace(options.save, options.counted, frame_->cache());
        interposition_.emplace(*caching_);
    }
    hooks_.emplace([frame = frame_] { return frame->saveInForward(); });
}

CheckpointScope::~CheckpointScope() = default;

void CheckpointScope::complete()
{
    if (!frame_)
        return;
    hooks_.reset();
    interposition_.reset();
}

std::size_t CheckpointScope::savedTensors() const
{
    return frame_ ? frame_->savedTensors() : 0;
}

OpCounts CheckpointScope::opCounts() const
{
    return caching_ ? frame_->cache()->counts() : OpCounts();
}

namespace {

/// The exception that ends a recomputation once it has all tensors. Not a std::exception, so that a region does
/// not catch this.
struct StopRecomputation
{
};

/// Returns the number of the backward pass that runs in this thread, or a new number outside of backward.
int currentPass()
{
    const int pass = torch::autograd::get_current_graph_task_id();
    static std::atomic<int> outside{-1};
    return pass != -1 ? pass : --outside;
}

} // namespace

/// Hooks for a tensor that the region saves in forward. Only the slot is kept.
class CheckpointFrame::ForwardSave final : public torch::autograd::SavedVariableHooks
{
public:
    explicit ForwardSave(std::shared_ptr<CheckpointFrame> frame)
        : frame_(std::move(frame))
    {
    }
    void call_pack_hook(const at::Tensor& tensor) override { slot_ = frame_->addSlot(tensor); }
    at::Tensor call_unpack_hook() override { return frame_->unpack(*slot_); }

private:
    std::shared_ptr<CheckpointFrame> frame_;
    std::shared_ptr<Slot> slot_;
};

/// Hooks for a tensor that the recomputation saves. The tensor goes to the slot; the graph of the recomputation keeps
/// the tensor too, since the region may run backward itself.
class CheckpointFrame::RecomputeSave final : public torch::autograd::SavedVariableHooks
{
public:
    RecomputeSave(std::weak_ptr<CheckpointFrame> frame, int pass)
        : frame_(std::move(frame))
        , pass_(pass)
    {
    }
    void call_pack_hook(const at::Tensor& tensor) override
    {
        kept_ = detached(tensor, /*allowMetadataChange=*/false);
        if (const auto frame = frame_.lock())
            frame->recomputed(pass_, kept_);
    }
    at::Tensor call_unpack_hook() override { return kept_; }

private:
    std::weak_ptr<CheckpointFrame> frame_;
    int pass_;
    at::Tensor kept_;
};

CheckpointFrame::CheckpointFrame(RegionFunction function, const Values& inputs, const CheckpointOptions& options)
    : function_(std::move(function))
    , options_(options)
    , ambient_(inputs, /*random=*/true)
    , cache_(options.save ? std::make_shared<SelectiveCache>() : nullptr)
{
    for (const c10::IValue& value : inputs) {
        Input& input = inputs_.emplace_back();
        input.isTensor = value.isTensor() && value.toTensor().defined();
        if (!input.isTensor) {
            input.value = value;
            continue;
        }
        const at::Tensor& tensor = value.toTensor();
        // If the region changes an input in place, the input's history becomes what holds this frame: the frame keeps
        // the tensor without a history, and the node that made the tensor.
        const bool hasHistory = tensor.requires_grad();
        input.node = tensor.grad_fn();
        input.saved = torch::autograd::SavedVariable(
            hasHistory ? tensor : detached(tensor, /*allowMetadataChange=*/false), /*is_output=*/input.node != nullptr);
        input.version = tensor.unsafeGetTensorImpl()->version_counter();
        input.versionThen = input.version.current_version();
    }
}

std::unique_ptr<torch::autograd::SavedVariableHooks> CheckpointFrame::saveInForward()
{
    return std::make_unique<ForwardSave>(shared_from_this());
}

CheckpointFrame::Metadata CheckpointFrame::metadataOf(const at::Tensor& tensor)
{
    return {tensor.sizes().vec(), tensor.scalar_type(), tensor.device()};
}

std::string CheckpointFrame::textOf(const Metadata& metadata)
{
    std::string text;
    for (const std::int64_t size : metadata.sizes)
        text += (text.empty() ? "" : " x ") + std::to_string(size);
    return (text.empty() ? "a number" : text) + " of " + c10::toString(metadata.dtype) + " on " + metadata.device.str();
}

std::shared_ptr<CheckpointFrame::Slot> CheckpointFrame::addSlot(const at::Tensor& tensor)
{
    auto slot = std::make_shared<Slot>();
    slot->metadata = metadataOf(tensor);
    const std::lock_guard lock(mutex_);
    slots_.push_back(slot);
    return slot;
}

at::Tensor CheckpointFrame::unpack(Slot& slot)
{
    const std::lock_guard lock(mutex_);
    const int pass = currentPass();
    if (!passes_[pass].recomputed) {
        recompute(pass);
        passes_[pass].recomputed = true;
        checkSame(pass);
    }
    const auto found = slot.recomputed.find(pass);
    if (found == slot.recomputed.end())
        throw CheckpointError(
            "the recomputation of a checkpointed region did not reach a tensor that backward needs: a "
            "region must do the same each time");
    if (!found->second.defined())
        throw CheckpointError("a node of a checkpointed region unpacks a saved tensor a second time in the same "
                              "backward pass, and only once is allowed");
    return std::exchange(found->second, at::Tensor());
}

Values CheckpointFrame::inputs() const
{
    Values values;
    for (const Input& input : inputs_) {
        if (!input.isTensor) {
            values.push_back(input.value);
            continue;
        }
        if (input.version.current_version() != input.versionThen)
            throw CheckpointError("input " + std::to_string(values.size())
                                  + " of a checkpointed region was changed in place after the region began, so the "
                                    "region cannot run again; checkpoint a larger region or change a copy");
        values.emplace_back(input.saved.unpack(input.node));
    }
    return values;
}

void CheckpointFrame::recompute(int pass)
{
    const Values inputs = this->inputs();
    const at::AutoGradMode gradients(true);
    const SavedTensorHooksScope hooks(
        [weak = weak_from_this(), pass] { return std::make_unique<RecomputeSave>(weak, pass); });
    const AmbientState::Replay ambience(ambient_);
    std::optional<CachedOps> cached;
    std::optional<InterpositionScope> interposition;
    if (cache_) {
        cached.emplace(options_.save, cache_);
        interposition.emplace(*cached);
    }
    try {
        function_(inputs);
    } catch (const StopRecomputation&) { // backward needs no more tensors
    }
}

void CheckpointFrame::recomputed(int pass, const at::Tensor& tensor)
{
    const std::size_t index = passes_[pass].packed++;
    if (index >= slots_.size()) // the region caught StopRecomputation
        return;
    // An earlier backward inside the region may have used the slot: the slot is then gone.
    if (const auto slot = slots_[index].lock())
        slot->recomputed[pass] = tensor;
    if (index + 1 == slots_.size())
        throw StopRecomputation();
}

void CheckpointFrame::checkSame(int pass) const
{
    const auto found = passes_.find(pass);
    if (found->second.packed != slots_.size())
        throw CheckpointError("the recomputation of a checkpointed region saved " + std::to_string(found->second.packed)
                              + " tensors, the forward " + std::to_string(slots_.size())
                              + ": a region must do the same each time");
    for (std::size_t index = 0; index < slots_.size(); ++index) {
        const auto slot = slots_[index].lock();
        if (!slot)
            continue;
        const Metadata now = metadataOf(slot->recomputed.at(pass));
        if (now != slot->metadata)
            throw CheckpointError("saved tensor " + std::to_string(index) + " of a checkpointed region was "
                                  + textOf(slot->metadata) + " in forward and is " + textOf(now)
                                  + " when recomputed: a region must do the same each time");
    }
}

} // namespace headroom
