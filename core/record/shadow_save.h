// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/record/step_recording.h"

#include <torch/csrc/autograd/saved_variable_hooks.h>

namespace headroom {

/// The tensor on another storage: everything else of it (strides, offset, type, conjugation) as it is, without its
/// autograd history.
at::Tensor onStorage(const at::Tensor& tensor, c10::Storage storage);

/// The tensor as it is, on a storage that takes no memory.
at::Tensor shapeOf(const at::Tensor& tensor);

/// A tensor saved for backward while a step is recorded. Of a storage that the step made itself nothing is kept but its
/// shape: the storage then dies when the program drops it, and what autograd would have held is recorded by events. Its
/// memory on the device stays taken as long. The backward node gets a shadow, a tensor of the same shape on a storage
/// that takes no memory of its own, whose death is the end of the node's hold. A graph that outlives the recording
/// holds the storages themselves from then on. A tensor of a Python class such as DTensor is saved as the tensors that
/// it is made of.
class ShadowSave final : public torch::autograd::SavedVariableHooks
{
public:
    explicit ShadowSave(const std::shared_ptr<StepRecording>& recording);
    ~ShadowSave() override;
    ShadowSave(const ShadowSave&) = delete;
    ShadowSave& operator=(const ShadowSave&) = delete;

    void call_pack_hook(const at::Tensor& tensor) override;
    at::Tensor call_unpack_hook() override;
    /// What was saved is held from now on: the storage, where it lives, or `again`, which stands for it and is made
    /// unless another tensor that was saved of it has made it.
    void holdStorage(c10::Storage& again, sim::BlockTag tag);

private:
    bool packParts(const at::Tensor& tensor);
    c10::DataPtr withContents(c10::DataPtr block) const;

    std::weak_ptr<StepRecording> recording_;
    StepRecording::Pack pack_;
    std::vector<std::unique_ptr<ShadowSave>> parts_; ///< of a tensor that is made of others
    at::Tensor kept_; ///< the tensor, detached; of a shadowed one only the shape
    c10::weak_intrusive_ptr<c10::StorageImpl> storage_; ///< of a shadowed one
    Bytes storageBytes_ = 0;
    c10::Storage contents_; ///< the storage's, where the step can tell (core/device/known_storage.h)
    void* address_ = nullptr; ///< of what is saved, where it is really there
};

} // namespace headroom
