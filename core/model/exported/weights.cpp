// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/exported/weights.h"

#include "core/device/known_storage.h"
#include "core/model/source.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <cstring>
#include <tuple>

namespace headroom::exported {
namespace {

std::vector<std::int64_t> numbers(const std::vector<Size>& sizes)
{
    std::vector<std::int64_t> plain;
    for (const Size& size : sizes)
        plain.push_back(size.number);
    return plain;
}

class Loader
{
public:
    Loader(const ExportedProgram& program, at::Device device)
        : program_(program)
        , device_(device)
    {
        for (const std::vector<std::string>& names : program.tied.value_or(std::vector<std::vector<std::string>>()))
            for (const std::string& name : names)
                first_[name] = names.front();
    }
    std::map<std::string, at::Tensor> load();

private:
    /// The identity of a tensor: the same elements of one storage are one tensor.
    using Identity = std::tuple<std::string, at::ScalarType, std::int64_t, std::vector<std::int64_t>,
                                std::vector<std::int64_t>, bool>;

    at::Tensor tensor(const std::string& name, const Weight& weight);
    at::Tensor storage(const std::string& key, const Weight& weight);

    const ExportedProgram& program_;
    at::Device device_;
    std::map<std::string, std::string> first_; ///< first of the names that are tied, by name
    std::map<std::string, at::Tensor> storages_;
    std::map<Identity, at::Tensor> tensors_;
};

/// Whether to read a weight from the file. The simulated device needs only small integers and booleans (positions,
/// masks or counts), on which sizes may depend (core/device/known_storage.h).
bool isRead(const Weight& weight, at::Device device)
{
    return computes(device)
        || (at::isIntegralType(weight.meta.dtype, /*includeBool=*/true)
            && static_cast<Bytes>(weight.bytes) <= sim::knownValuesLimit(weight.meta.dtype));
}

/// Returns the storage as a flat tensor of the element type.
at::Tensor Loader::storage(const std::string& key, const Weight& weight)
{
    at::Tensor& known = storages_[key];
    const at::ScalarType dtype = weight.meta.dtype;
    if (known.defined())
        return known.scalar_type() == dtype ? known : known.view(dtype);
    const auto elements = static_cast<std::int64_t>(weight.bytes / c10::elementSize(dtype));
    const bool read = elements != 0 && isRead(weight, device_);
    known = at::empty({elements}, at::TensorOptions(read ? at::kCPU : device_).dtype(dtype));
    if (read) {
        const auto bytes = program_.archive.record(weight.record);
        std::memcpy(known.mutable_data_ptr(), bytes->data(),
                    static_cast<std::size_t>(elements) * c10::elementSize(dtype));
    }
    known = known.to(device_);
    return known;
}

at::Tensor Loader::tensor(const std::string& name, const Weight& weight)
{
    const TensorMeta& meta = weight.meta;
    const auto sizes = numbers(meta.sizes);
    const auto strides = numbers(meta.strides);
    // In a file without weights all tensors name one empty record, and only the notes of torch_headroom.export tie
    // them.
    const auto tied = first_.find(name);
    const std::string key = weight.bytes != 0 ? weight.record : tied == first_.end() ? name : tied->second;
    at::Tensor& known = tensors_[{key, meta.dtype, meta.offset.number, sizes, strides, meta.requiresGrad}];
    if (known.defined())
        return known;
    known = weight.bytes == 0 ? at::empty_strided(sizes, strides, at::TensorOptions(device_).dtype(meta.dtype))
                              : storage(key, weight).as_strided(sizes, strides, meta.offset.number).detach();
    known.set_requires_grad(meta.requiresGrad);
    return known;
}

std::map<std::string, at::Tensor> Loader::load()
{
    std::map<std::string, at::Tensor> tensors;
    for (const auto& [name, weight] : program_.weights)
        tensors.emplace(name, tensor(name, weight));
    return tensors;
}

/// Adds the types of the modules in which nodes run, by FQN.
void addTypes(const Graph& graph, std::map<std::string, std::string>& types)
{
    for (const Node& node : graph.nodes) {
        for (const Node::Frame& frame : node.frames)
            types.emplace(frame.fqn, frame.type);
        for (const auto& [name, argument] : node.inputs)
            if (argument.graph)
                addTypes(*argument.graph, types);
    }
}

std::string parentOf(const std::string& fqn)
{
    const std::size_t dot = fqn.rfind('.');
    return dot == std::string::npos ? std::string() : fqn.substr(0, dot);
}

std::string lastOf(const std::string& fqn)
{
    return fqn.substr(fqn.rfind('.') + 1);
}

class TreeMaker
{
public:
    explicit TreeMaker(const ExportedProgram& program);
    NamedTree make(const std::map<std::string, at::Tensor>& tensors);

private:
    void add(const std::string& fqn);
    void append(const std::string& fqn, ModuleId parent);
    std::string typeOf(const std::string& fqn) const;

    const ExportedProgram& program_;
    std::map<std::string, std::string> types_;
    std::map<std::string, std::vector<std::string>> children_; ///< in the order of their registration
    NamedTree named_;
};

TreeMaker::TreeMaker(const ExportedProgram& program)
    : program_(program)
{
    for (const auto& [fqn, type] : program.types)
        types_.emplace(fqn, lastOf(type));
    addTypes(program.graph, types_);
    children_[""];
    for (const std::string& fqn : program.modules)
        add(fqn);
    for (const InputSpec& input : program.inputs)
        if (!input.name.empty())
            add(parentOf(input.name));
    for (const auto& [fqn, type] : types_)
        add(fqn);
}

void TreeMaker::add(const std::string& fqn)
{
    if (children_.contains(fqn))
        return;
    add(parentOf(fqn));
    children_[fqn];
    children_[parentOf(fqn)].push_back(fqn);
}

std::string TreeMaker::typeOf(const std::string& fqn) const
{
    const auto known = types_.find(fqn);
    if (known != types_.end() && !known->second.empty())
        return known->second;
    if (fqn.empty())
        return "Model";
    const std::vector<std::string>& children = children_.at(fqn);
    const bool numbered = !children.empty() && std::ranges::all_of(children, [](const std::string& child) {
        return lastOf(child).find_first_not_of("0123456789") == std::string::npos;
    });
    return numbered ? "ModuleList" : "Module";
}

void TreeMaker::append(const std::string& fqn, ModuleId parent)
{
    const ModuleId id(static_cast<std::uint32_t>(named_.tree.modules.size()));
    named_.ids.emplace(fqn, id);
    const std::string type = typeOf(fqn);
    const std::string name = parent.valid() ? named_.tree.modules[parent.value].fqn + "." + lastOf(fqn) : type;
    named_.tree.modules.push_back({name, type, parent});
    for (const std::string& child : children_.at(fqn))
        append(child, id);
}

NamedTree TreeMaker::make(const std::map<std::string, at::Tensor>& tensors)
{
    append("", ModuleId());
    std::map<ModuleId, std::vector<ModelTree::Registered>> owned;
    for (const InputSpec& input : program_.inputs) {
        if (input.name.empty() || input.kind == InputSpec::Kind::constant)
            continue;
        const ModuleId owner = named_.ids.at(parentOf(input.name));
        owned[owner].push_back({owner, lastOf(input.name), tensors.at(input.name),
                                input.kind == InputSpec::Kind::parameter ? Category::parameter : Category::buffer});
    }
    for (auto& [owner, registered] : owned)
        named_.tree.registered.insert(named_.tree.registered.end(), registered.begin(), registered.end());
    return std::move(named_);
}

} // namespace

Result<std::map<std::string, at::Tensor>> loadWeights(const ExportedProgram& program, at::Device device)
{
    if (computes(device) && program.weightless())
        return badInput(program.name + " was exported without weights; only --device sim can run it");
    return Loader(program, device).load();
}

NamedTree makeTree(const ExportedProgram& program, const std::map<std::string, at::Tensor>& tensors)
{
    return TreeMaker(program).make(tensors);
}

} // namespace headroom::exported
