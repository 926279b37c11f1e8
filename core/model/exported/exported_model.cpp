// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/exported/exported_model.h"

#include "core/base/try.h"
#include "core/model/openers.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

namespace headroom::exported {
namespace {

/// Creates an input of this shape. On a device that computes it has normally distributed numbers; integers are 0, since
/// they may be indices.
at::Tensor invent(const TensorMeta& meta, const std::vector<std::int64_t>& sizes, at::Device device)
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

/// Returns an error if `asked` is not the file's element type, which its graph fixes.
Status checkDtype(const ExportedProgram& program, std::optional<at::ScalarType> asked)
{
    if (!asked)
        return {};
    for (const InputSpec& input : program.inputs) {
        if (input.kind != InputSpec::Kind::parameter)
            continue;
        const at::ScalarType dtype = program.weights.at(input.name).meta.dtype;
        if (at::isFloatingType(dtype) && dtype != *asked)
            return badInput("--dtype " + dtypeName(*asked) + ": " + program.name + " was exported in "
                            + dtypeName(dtype) + ", which its graph fixes; leave --dtype out, or export it again");
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
        inputs_.push_back(invent(*meta, sizes, device));
    }
    return {};
}

Result<std::unique_ptr<ExportedModel>> ExportedModel::open(ExportedProgram program, const ModelRequest& request)
{
    if (!request.settings.empty())
        return badInput("--set " + request.settings.front().first + ": " + program.name
                        + " has no settings; they are for demo models");
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
        return {"the file holds no weights, so that tied ones cannot be told and count as often as they are named; "
                "torch_headroom.export notes them"};
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
