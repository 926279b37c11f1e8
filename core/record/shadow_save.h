// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/record/step_recording.h"

#include <torch/csrc/autograd/saved_variable_hooks.h>

namespace headroom {

/// Returns a tensor on `storage` with the strides, offset, type and conjugation of `tensor`, without its autograd
/// history.
at::Tensor onStorage(const at::Tensor& tensor, c10::Storage storage);

/// Returns a tensor on the same storage and with the same version counter, without autograd's history. Its sizes and
/// strides may be set if `allowMetadataChange`.
at::Tensor detached(const at::Tensor& tensor, bool allowMetadataChange);

/// Returns a tensor with the shape of `tensor`, on a storage that takes no memory.
at::Tensor shapeOf(const at::Tensor& tensor);

/// Saves a tensor for backward while a step is recorded. If the step created the tensor's storage, only the shape is
/// kept. The storage then dies when the program drops it, and events record what autograd would hold; its memory on the
/// device stays taken for as long as autograd would hold it. On unpacking, the backward node gets a shadow: a tensor of
/// the same shape on a storage that takes no memory; its end is the end of the node's hold. When the recording ends, a
/// graph that outlives it gets the storages themselves. A tensor of a Python class such as DTensor is saved as its
/// parts. A tensor without a history is itself unpacked, as without hooks, if the step did not create its storage, or
/// the program still holds it. As without hooks, unpacking a tensor that was changed in place since is an error.
class ShadowSave final : public torch::autograd::SavedVariableHooks
{
public:
    explicit ShadowSave(const std::shared_ptr<StepRecording>& recording);
    ~ShadowSave() override;
    ShadowSave(const ShadowSave&) = delete;
    ShadowSave& operator=(const ShadowSave&) = delete;

    void call_pack_hook(const at::Tensor& tensor) override;
    at::Tensor call_unpack_hook() override;
    /// Returns none, so that compiled autograd takes the unpacked tensor. It would call a Python hook in its graph.
    std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data() const override
    {
        return std::nullopt;
    }
    /// Holds the saved tensor's storage from now on: the original if it is alive, otherwise `again`. `again` replaces
    /// the dead storage for all saved tensors of it; the first of them creates it.
    void holdStorage(c10::Storage& again, sim::BlockTag tag);

private:
    void packTensor(const at::Tensor& tensor);
    bool packParts(const at::Tensor& tensor);
    void checkVersion() const;
    at::Tensor original() const;
    c10::DataPtr withContents(c10::DataPtr block) const;

    std::weak_ptr<StepRecording> recording_;
    StepRecording::Pack pack_;
    std::vector<std::unique_ptr<ShadowSave>> parts_; ///< saves of the parts of a tensor of a Python class
    at::Tensor kept_; ///< the tensor, detached if it has a history; only its shape if shadowed
    /// If shadowed: the original, if it has no history.
    WeakTensor leaf_;
    c10::VariableVersion version_;
    std::uint32_t savedVersion_ = 0;
    WeakNodePtr node_{NodePtr()}; ///< of the tensor
    std::int64_t outputNumber_ = 0; ///< of that node
    c10::weak_intrusive_ptr<c10::StorageImpl> storage_; ///< if shadowed: the original
    Bytes storageBytes_ = 0;
    c10::Storage contents_; ///< known contents of the storage (core/device/known_storage.h)
    void* address_ = nullptr; ///< of the saved data, on a real device
};

} // namespace headroom
