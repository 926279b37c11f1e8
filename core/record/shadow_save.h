// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/record/step_recording.h"

#include <torch/csrc/autograd/saved_variable_hooks.h>

namespace headroom {

/// Returns a tensor on `storage` with the strides, offset, type and conjugation of `tensor`, without autograd's
/// history.
at::Tensor onStorage(const at::Tensor& tensor, c10::Storage storage);

/// Returns a tensor on the same storage and with the same version counter, without autograd's history.
/// `allowMetadataChange`: a program may set the sizes and strides.
at::Tensor detached(const at::Tensor& tensor, bool allowMetadataChange);

/// Returns a tensor with the shape of `tensor`, on a storage that takes no memory.
at::Tensor shapeOf(const at::Tensor& tensor);

/// Saves a tensor for backward while a step is recorded. If the step created the tensor's storage, only the shape is
/// kept: the save is shadowed. The storage then dies when the program drops the storage, and events record autograd's
/// hold. The memory on the device stays taken for as long as autograd would hold the storage. On unpacking, the
/// backward node gets a shadow: a tensor of the same shape on a storage that takes no memory. The shadow's end is the
/// end of the node's hold. When the recording ends, a graph that lives on gets the storages themselves.
///
/// A tensor of a Python class such as DTensor is saved as parts. A tensor without a history is itself unpacked, as
/// without hooks, if the storage is older than the step or the program still holds the tensor. As without hooks,
/// unpacking a tensor that was changed in place since is an error.
class ShadowSave final : public torch::autograd::SavedVariableHooks
{
public:
    explicit ShadowSave(const std::shared_ptr<StepRecording>& recording);
    ~ShadowSave() override;
    ShadowSave(const ShadowSave&) = delete;
    ShadowSave& operator=(const ShadowSave&) = delete;

    void call_pack_hook(const at::Tensor& tensor) override;
    at::Tensor call_unpack_hook() override;
    /// Returns none, so that compiled autograd takes the unpacked tensor: a Python hook would run in the compiled
    /// graph.
    std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data() const override
    {
        return std::nullopt;
    }
    /// Holds the saved tensor's storage from now on: the original while alive, otherwise `again`. `again` replaces the
    /// dead storage for all saved tensors of the storage; the first such tensor creates `again`.
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
    at::Tensor kept_; ///< the tensor, detached from any history; if shadowed: only the shape
    WeakTensor leaf_; ///< if shadowed: the original, if a leaf
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
