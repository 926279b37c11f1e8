// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/shadow_save.h"

#include "core/device/hosted_memory.h"
#include "core/device/known_storage.h"
#include "core/device/simulated_state.h"
#include "core/device/sparse_tensor.h"
#include "core/record/saved_tensor_hooks.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>

namespace headroom {
namespace {

c10::Storage simulatedStorage(c10::DataPtr pointer, Bytes bytes)
{
    return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                              static_cast<std::size_t>(bytes), std::move(pointer),
                                                              &sim::simulatedState().allocator, /*resizable=*/false));
}

/// Calls an op that Python implements, outside of the step, and returns the first result.
at::IValue ask(const char* name, std::vector<at::IValue> stack)
{
    const c10::impl::ExcludeDispatchKeyGuard unrecorded(c10::DispatchKey::Fake);
    c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(stack);
    return std::move(stack.front());
}

/// Returns the tensors that hold the memory of a sparse tensor, or of a tensor of a Python class such as DTensor;
/// empty: an ordinary tensor, or a class that does not say. Python answers
/// (packaging/python/torch_headroom/_modules.py).
std::vector<at::Tensor> partsOf(const at::Tensor& tensor)
{
    if (tensor.is_sparse()) {
        std::vector<at::Tensor> parts;
        forEachDense(tensor, [&](const at::Tensor& dense) { parts.push_back(dense); });
        return parts;
    }
    if (!tensor.key_set().has(c10::DispatchKey::Python))
        return {};
    return ask("torch_headroom::parts", {tensor}).toTensorVector();
}

/// Returns the same tensor made of other parts, without autograd's history.
at::Tensor withParts(const at::Tensor& tensor, const std::vector<at::Tensor>& parts)
{
    if (tensor.is_sparse())
        return withDense(tensor, parts[0], parts[1]);
    return ask("torch_headroom::with_parts", {tensor, parts}).toTensor();
}

/// Copies a tensor on the same storage, without autograd's history. Dispatch modes of Python see no copy of a plain
/// tensor: the program makes none.
at::Tensor copyOf(const at::Tensor& tensor, const c10::VariableVersion& version, bool allowMetadataChange)
{
    const bool isPlain = !tensor.key_set().has(c10::DispatchKey::Python);
    const c10::impl::ExcludeDispatchKeyGuard noModes(isPlain ? c10::DispatchKeySet(c10::DispatchKey::Python)
                                                             : c10::DispatchKeySet());
    return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(version, allowMetadataChange));
}

} // namespace

at::Tensor onStorage(const at::Tensor& tensor, c10::Storage storage)
{
    at::Tensor copy = copyOf(tensor, c10::VariableVersion(0), /*allowMetadataChange=*/true);
    copy.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
    return copy;
}

at::Tensor detached(const at::Tensor& tensor, bool allowMetadataChange)
{
    return copyOf(tensor, tensor.unsafeGetTensorImpl()->version_counter(), allowMetadataChange);
}

at::Tensor shapeOf(const at::Tensor& tensor)
{
    return onStorage(tensor, simulatedStorage({nullptr, tensor.device()}, 0));
}

ShadowSave::ShadowSave(const std::shared_ptr<StepRecording>& recording)
    : recording_(recording)
    , leaf_(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>())
    , version_(0)
    , storage_(c10::intrusive_ptr<c10::StorageImpl>())
{
}

ShadowSave::~ShadowSave()
{
    const auto recording = recording_.lock();
    if (!recording || !pack_.id.valid())
        return;
    recording->forget(*this);
    recording->release(pack_);
}

bool ShadowSave::packParts(const at::Tensor& tensor)
{
    std::vector<at::Tensor> shapes;
    for (const at::Tensor& part : partsOf(tensor)) {
        parts_.push_back(std::make_unique<ShadowSave>(recording_.lock()));
        parts_.back()->packTensor(part);
        shapes.push_back(shapeOf(part));
    }
    if (!shapes.empty())
        kept_ = withParts(tensor, shapes);
    return !shapes.empty();
}

void ShadowSave::call_pack_hook(const at::Tensor& tensor)
{
    TORCH_INTERNAL_ASSERT(tensor.is_same(tensorToSave()), "this libtorch asks for hooks in another way");
    version_ = tensor.unsafeGetTensorImpl()->version_counter();
    savedVersion_ = version_.current_version();
    node_ = WeakNodePtr(tensor.grad_fn());
    outputNumber_ = tensor.output_nr();
    packTensor(tensor);
}

void ShadowSave::packTensor(const at::Tensor& tensor)
{
    if (packParts(tensor))
        return;
    const auto recording = recording_.lock();
    if (recording)
        pack_ = recording->pack(tensor);
    if (pack_.shadowed) {
        recording->remember(*this, pack_);
        storage_ = tensor.storage().getWeakStorageImpl();
        storageBytes_ = static_cast<Bytes>(tensor.storage().nbytes());
        contents_ = sim::knownContents(*tensor.storage().unsafeGetStorageImpl());
        if (!sim::isSimulated(tensor.device()))
            address_ = tensor.storage().mutable_data();
        kept_ = shapeOf(tensor);
        if (tensor.is_leaf())
            leaf_ = WeakTensor(tensor.getIntrusivePtr());
    } else {
        // The autograd history of a result holds this ShadowSave: the kept tensor must not hold the history.
        kept_ = tensor.requires_grad() ? detached(tensor, /*allowMetadataChange=*/false) : tensor;
    }
}

/// Raises the error of SavedVariable::unpack(): libtorch checks only tensors without hooks
/// (torch/csrc/autograd/saved_variable.cpp).
void ShadowSave::checkVersion() const
{
    const std::uint32_t now = version_.current_version();
    if (now == savedVersion_)
        return;
    const NodePtr node = node_.lock();
    TORCH_CHECK(false,
                "one of the variables needed for gradient computation has been modified by an inplace operation: [",
                kept_.toString(), " ", kept_.sizes(), "]",
                node ? c10::str(", which is output ", outputNumber_, " of ", node->name(), ",") : "", " is at version ",
                now, "; expected version ", savedVersion_,
                " instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, "
                "with torch.autograd.set_detect_anomaly(True).");
}

/// Returns the saved leaf while the program still holds the leaf; otherwise an undefined tensor.
at::Tensor ShadowSave::original() const
{
    auto alive = leaf_.lock();
    return alive ? at::Tensor(std::move(alive)) : at::Tensor();
}

at::Tensor ShadowSave::call_unpack_hook()
{
    checkVersion();
    if (!parts_.empty()) {
        std::vector<at::Tensor> parts;
        for (const auto& part : parts_)
            parts.push_back(part->call_unpack_hook());
        return withParts(kept_, parts);
    }
    const auto recording = recording_.lock();
    if (recording)
        recording->unpack(pack_);
    if (!pack_.shadowed)
        return kept_;
    if (at::Tensor tensor = original(); tensor.defined()) {
        if (recording)
            recording->unpackEnd(pack_);
        return tensor;
    }
    // The contents may have changed since the save. CUDA would read the new contents.
    if (const auto alive = storage_.lock())
        contents_ = sim::knownContents(*alive);
    std::function<void()> onFree;
    sim::BlockTag tag;
    if (recording) {
        tag = recording->tagOf(pack_.storage);
        onFree = [weak = recording_, pack = pack_] {
            if (const auto alive = weak.lock())
                alive->unpackEnd(pack);
        };
    }
    c10::DataPtr block
        = sim::simulatedState().allocator.allocateUncounted(storageBytes_, tag, pack_.memory, std::move(onFree));
    // The address stays the same, since programs compare addresses, for example with CUDA graphs.
    static_cast<sim::Block*>(block.get_context())->address = pack_.address;
    const c10::DeleterFnPtr deleter = block.get_deleter();
    block = {pack_.address, block.release_context(), deleter, block.device()};
    return onStorage(kept_, simulatedStorage(withContents(std::move(block)), storageBytes_));
}

/// Gives the block the known contents and, on a real device, the address of the saved data.
c10::DataPtr ShadowSave::withContents(c10::DataPtr block) const
{
    if (auto* simulated = static_cast<sim::Block*>(block.get_context()))
        simulated->values = contents_;
    return address_ ? sim::hosted(std::move(block), address_, kept_.device()) : std::move(block);
}

void ShadowSave::holdStorage(c10::Storage& again, sim::BlockTag tag)
{
    // The recording holds a lock, so no copy of the shape is made: a copy may call Python.
    if (at::Tensor tensor = original(); tensor.defined()) {
        kept_ = std::move(tensor);
    } else if (auto alive = storage_.lock()) {
        kept_.unsafeGetTensorImpl()->set_storage_keep_dtype(c10::Storage(std::move(alive)));
    } else {
        if (!again) {
            c10::DataPtr block
                = sim::simulatedState().allocator.allocateHeld(storageBytes_, pack_.address, tag, pack_.memory);
            again = simulatedStorage(withContents(std::move(block)), storageBytes_);
        }
        kept_.unsafeGetTensorImpl()->set_storage_keep_dtype(again);
    }
    storage_.reset();
    pack_.shadowed = false;
    pack_.memory.reset();
}

} // namespace headroom
