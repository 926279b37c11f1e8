// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/exported/exported_model.h"

#include "core/base/try.h"
#include "core/device/known_storage.h"
#include "core/model/source.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
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
    /// The identity of a tensor: the same elements of a storage are the same tensor.
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
    std::map<std::string, std::vector<std::string>> children_; ///< in the order of registration
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
        if (input.name.empty() || input.kind == InputSpec::InputKind::constant)
            continue;
        const ModuleId owner = named_.ids.at(parentOf(input.name));
        owned[owner].push_back(
            {owner, lastOf(input.name), tensors.at(input.name),
             input.kind == InputSpec::InputKind::parameter ? Category::parameter : Category::buffer});
    }
    for (auto& [owner, registered] : owned)
        named_.tree.registered.insert(named_.tree.registered.end(), registered.begin(), registered.end());
    return std::move(named_);
}

} // namespace

Result<std::map<std::string, at::Tensor>> loadWeights(const ExportedProgram& program, at::Device device)
{
    if (computes(device) && program.weightless())
        return badInput(program.name + " was exported without weights; only --device sim can run such a model");
    return Loader(program, device).load();
}

NamedTree makeTree(const ExportedProgram& program, const std::map<std::string, at::Tensor>& tensors)
{
    return TreeMaker(program).make(tensors);
}

namespace {

/// Creates an input of this shape. On a device that computes, numbers are normally distributed; integers are 0, since
/// integers may be indices.
at::Tensor exampleInput(const TensorMeta& meta, const std::vector<std::int64_t>& sizes, at::Device device)
{
    const auto options = at::TensorOptions(device).dtype(meta.dtype);
    std::vector<std::int64_t> strides;
    for (const Size& stride : meta.strides)
        if (stride.expression.empty())
            strides.push_back(stride.number);
    const bool fixed = strides.size() == sizes.size()
        && std::ranges::all_of(meta.sizes, [](const Size& size) { return size.expression.empty(); });
    at::Tensor tensor = fixed ? at::empty_strided(sizes, strides, options) : at::empty(sizes, options);
    if (computes(device)) {
        if (meta.dtype == at::kBool)
            tensor.fill_(true);
        else if (at::isFloatingType(meta.dtype))
            tensor.normal_();
        else
            tensor.zero_();
    }
    const bool differentiable = at::isFloatingType(meta.dtype) || at::isComplexType(meta.dtype);
    tensor.set_requires_grad(meta.requiresGrad && differentiable);
    return tensor;
}

/// Returns an error if `asked` is not the file's element type, fixed by the graph.
Status checkDtype(const ExportedProgram& program, std::optional<at::ScalarType> asked)
{
    if (!asked)
        return {};
    for (const InputSpec& input : program.inputs) {
        if (input.kind != InputSpec::InputKind::parameter)
            continue;
        const at::ScalarType dtype = program.weights.at(input.name).meta.dtype;
        if (at::isFloatingType(dtype) && dtype != *asked)
            return badInput("--dtype " + dtypeName(*asked) + ": " + program.name + " was exported in "
                            + dtypeName(dtype)
                            + ", and the graph fixes the type; leave --dtype out, or export the model again");
    }
    return {};
}

} // namespace

Status ExportedModel::makeInputs(at::Device device)
{
    for (const InputSpec& input : program_.inputs) {
        const TensorMeta* meta = program_.tensorOf(input);
        if (!meta)
            continue;
        std::vector<std::int64_t> sizes;
        for (const Size& size : meta->sizes) {
            const auto number = evaluate(size, sizes_.symbols);
            if (!number || *number < 0)
                return badInput(program_.name + ": the size " + size.expression + " of input '"
                                + input.argument.elements.front().name
                                + "' is not understood; export the model with plain dynamic dimensions");
            sizes.push_back(*number);
        }
        inputs_.push_back(exampleInput(*meta, sizes, device));
    }
    return {};
}

Result<std::unique_ptr<ExportedModel>> ExportedModel::open(ExportedProgram program, const ModelRequest& request)
{
    if (!request.settings.empty())
        return badInput("--set " + request.settings.front().first + ": " + program.name
                        + " has no settings; only demo models have settings");
    RETURN_IF_ERROR(checkDtype(program, request.dtype));
    ASSIGN_OR_RETURN(auto sizes, chooseSizes(program, request));
    ASSIGN_OR_RETURN(auto tensors, loadWeights(program, request.device));
    NamedTree tree = makeTree(program, tensors);

    CompileOptions options;
    options.device = request.device;
    options.lifetimes = request.lifetimes.value_or(Lifetimes::graph);
    options.moduleOf = [&](const std::string& fqn) { return tree.ids.at(fqn); };
    options.nameOf = [&](const std::string& fqn) { return tree.tree.modules[tree.ids.at(fqn).value].fqn; };
    ASSIGN_OR_RETURN(auto graph, compileGraph(program, options));

    std::unique_ptr<ExportedModel> model(new ExportedModel);
    auto fixed = std::make_shared<std::vector<std::pair<Slot, c10::IValue>>>();
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
        if (!graph.inputs[i].given && graph.inputs[i].slot.valid())
            fixed->emplace_back(graph.inputs[i].slot, tensors.at(program.inputs[i].name));
    model->fixed_ = std::move(fixed);
    model->program_ = std::move(program);
    model->graph_ = std::move(graph);
    model->tree_ = std::move(tree.tree);
    model->tensors_ = std::move(tensors);
    model->sizes_ = std::move(sizes);
    model->lifetimes_ = options.lifetimes;
    RETURN_IF_ERROR(model->makeInputs(request.device));
    return model;
}

/// Returns the value of an input of the graph: the batch's tensor `next`, which is then counted up, or a size.
c10::IValue ExportedModel::valueOf(std::size_t input, std::size_t& next) const
{
    const std::string& name = program_.inputs[input].argument.elements.front().name;
    const auto number = program_.graph.numbers.find(name);
    if (number == program_.graph.numbers.end())
        return inputs_.at(next++);
    const auto value = evaluate(number->second, sizes_.symbols);
    if (!value)
        throw ModelFailed("the size " + number->second.expression + " of input '" + name + "' is not understood");
    return *value;
}

void ExportedModel::writeBack(const std::string& target, const at::Tensor& value)
{
    const at::NoGradGuard noGrad;
    if (const auto tensor = tensors_.find(target); tensor != tensors_.end()) {
        at::Tensor(tensor->second).copy_(value);
        return;
    }
    std::size_t next = 0;
    for (const InputSpec& input : program_.inputs) {
        if (!program_.tensorOf(input))
            continue;
        if (input.argument.elements.front().name == target)
            inputs_.at(next).copy_(value);
        ++next;
    }
}

std::vector<at::Tensor> ExportedModel::forward()
{
    std::vector<at::Tensor> results;
    std::vector<std::pair<std::string, at::Tensor>> mutated;
    {
        GraphRunner runner(graph_, fixed_);
        std::size_t next = 0;
        for (std::size_t i = 0; i < graph_.inputs.size(); ++i)
            if (graph_.inputs[i].slot.valid() && graph_.inputs[i].given)
                runner.set(graph_.inputs[i].slot, valueOf(i, next));
        runner.run();
        for (const Slot slot : graph_.results)
            if (runner.get(slot).isTensor())
                results.push_back(runner.get(slot).toTensor());
        for (const GraphProgram::Mutation& mutation : graph_.mutations)
            if (mutation.value.valid() && runner.get(mutation.value).isTensor())
                mutated.emplace_back(mutation.target, runner.get(mutation.value).toTensor());
    }
    for (const auto& [target, value] : mutated)
        writeBack(target, value);
    if (results.empty())
        throw ModelFailed(program_.name + " returns no tensor, so there is no loss");
    return results;
}

std::vector<std::string> ExportedModel::notes() const
{
    if (program_.weightless() && !program_.tied)
        return {"the file holds no weights, so that tied weights count once for each name; torch_headroom.export notes "
                "tied weights"};
    return {};
}

} // namespace headroom::exported

namespace headroom {

Result<std::unique_ptr<ModelSource>> openExportedProgram(const ModelRequest& request)
{
    ASSIGN_OR_RETURN(auto program, exported::readExportedProgram(std::filesystem::path(request.name)));
    try {
        ASSIGN_OR_RETURN(auto model, exported::ExportedModel::open(std::move(program), request));
        return std::unique_ptr<ModelSource>(std::move(model));
    } catch (const c10::Error& error) {
        return badInput(request.name + " cannot be opened: " + firstLine(error));
    }
}

} // namespace headroom
