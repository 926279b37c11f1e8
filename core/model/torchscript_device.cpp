// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/source.h"
#include "core/model/torchscript_file.h"
#include "core/model/torchscript_modules.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

#include <unordered_set>

namespace headroom {
namespace {

/// Moves values and code to a device, each once.
class DeviceMove
{
public:
    explicit DeviceMove(at::Device device)
        : device_(device)
    {
    }
    void moveObject(c10::ivalue::Object& object);
    void moveCode(torch::jit::Block& block);

private:
    c10::IValue moved(const c10::IValue& value);
    at::Tensor moved(const at::Tensor& tensor);

    at::Device device_;
    std::unordered_set<const c10::ivalue::Object*> objects_;
    std::unordered_map<const c10::TensorImpl*, at::Tensor> tensors_; ///< new tensors by the old ones
    std::unordered_map<const c10::StorageImpl*, at::Tensor> storages_; ///< bytes of new storages by the old ones
    std::vector<at::Tensor> kept_; ///< old tensors, alive so that addresses stay unique
};

void DeviceMove::moveObject(c10::ivalue::Object& object)
{
    if (!objects_.insert(&object).second)
        return;
    for (std::size_t i = 0; i < object.type()->numAttributes(); ++i)
        object.setSlot(i, moved(object.getSlot(i)));
}

c10::IValue DeviceMove::moved(const c10::IValue& value)
{
    if (value.isTensor())
        return moved(value.toTensor());
    if (value.isDevice())
        return device_;
    if (value.isObject()) {
        moveObject(*value.toObject());
    } else if (value.isTensorList()
               || (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList()
                   && !value.isComplexDoubleList())) {
        c10::List<c10::IValue> list = value.toList();
        for (std::size_t i = 0; i < list.size(); ++i)
            list.set(i, moved(list.get(i)));
    } else if (value.isTuple()) {
        std::vector<c10::IValue> items;
        for (const c10::IValue& item : value.toTupleRef().elements())
            items.push_back(moved(item));
        return c10::ivalue::Tuple::create(std::move(items));
    } else if (value.isGenericDict()) {
        c10::Dict<c10::IValue, c10::IValue> dictionary = value.toGenericDict();
        for (auto& item : dictionary)
            item.setValue(moved(item.value()));
    }
    return value;
}

at::Tensor DeviceMove::moved(const at::Tensor& tensor)
{
    if (!tensor.defined() || tensor.device() == device_)
        return tensor;
    const auto known = tensors_.find(tensor.unsafeGetTensorImpl());
    if (known != tensors_.end())
        return known->second;
    kept_.push_back(tensor);
    const auto options = tensor.options().device(device_);
    at::Tensor& storage = storages_[tensor.storage().unsafeGetStorageImpl()];
    if (!storage.defined()) {
        const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
        storage = at::empty({bytes}, options.dtype(at::kByte));
        // The simulated device keeps the values of small storages; large storages were not read from the file.
        const bool small = tensor.storage().nbytes() <= TorchScriptFile::smallStorage;
        if (bytes > 0 && (computes(device_) || small))
            storage.copy_(at::from_blob(tensor.storage().mutable_data(), {bytes}, at::kByte));
    }
    const at::Tensor there = at::empty({0}, options)
                                 .set_(storage.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides())
                                 .set_requires_grad(tensor.requires_grad());
    tensors_.emplace(tensor.unsafeGetTensorImpl(), there);
    return there;
}

void DeviceMove::moveCode(torch::jit::Block& block)
{
    for (torch::jit::Node* node : block.nodes()) {
        for (torch::jit::Block* inner : node->blocks())
            moveCode(*inner);
        if (node->kind() != c10::prim::Constant || !node->hasAttribute(c10::attr::value))
            continue;
        if (node->output()->type()->kind() == c10::TypeKind::DeviceObjType)
            node->s_(c10::attr::value, device_.str());
        else if (node->kindOf(c10::attr::value) == torch::jit::AttributeKind::t && node->t(c10::attr::value).dim() > 0)
            node->t_(c10::attr::value, moved(node->t(c10::attr::value)));
    }
}

} // namespace

void moveToDevice(torch::jit::Module& root, at::Device device)
{
    DeviceMove move(device);
    move.moveObject(*root._ivalue());
    for (torch::jit::Function* function : root._ivalue()->compilation_unit()->get_functions())
        if (const auto code = torch::jit::tryToGraphFunction(*function))
            move.moveCode(*code->graph()->block());
}

} // namespace headroom
