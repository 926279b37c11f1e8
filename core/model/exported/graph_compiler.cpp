// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/exported/graph_program.h"

#include "core/device/source_frames.h"
#include "core/model/model_operators.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace headroom::exported {
namespace {

using Names = OperandMaker::Names;

constexpr std::string_view operatorPrefix = "torch.ops.";
constexpr std::string_view higherOrderPrefix = "torch.ops.higher_order.";

/// Whether a node is a check that exporting added. Types and devices may differ here, and the ranges of --batch and
/// --seq are checked elsewhere.
bool isTracingCheck(const std::string& target)
{
    static const std::set<std::string> checks{"torch.ops.aten._assert_tensor_metadata.default",
                                              "torch.ops.aten.sym_constrain_range.default",
                                              "torch.ops.aten.sym_constrain_range_for_size.default"};
    return checks.contains(target);
}

at::DeviceType exportedOn(const ExportedProgram& program)
{
    for (const InputSpec& input : program.inputs)
        if (input.kind == InputSpec::InputKind::parameter)
            return program.weights.at(input.name).meta.device;
    return program.graph.tensors.empty() ? at::kCPU : program.graph.tensors.begin()->second.device;
}

/// aten.mm.default → ("aten::mm", "").
c10::OperatorName operatorName(const std::string& target)
{
    const std::string path = target.substr(operatorPrefix.size());
    const std::size_t space = path.find('.');
    const std::size_t overload = path.rfind('.');
    if (space == std::string::npos || overload == space)
        throw Uncompilable{"is not the name of an operator"};
    const std::string variant = path.substr(overload + 1);
    return {path.substr(0, space) + "::" + path.substr(space + 1, overload - space - 1),
            variant == "default" ? "" : variant};
}

bool takesTensors(const c10::FunctionSchema& schema)
{
    return std::ranges::any_of(schema.arguments(), [](const c10::Argument& argument) {
        return argument.type()->kind() == c10::TypeKind::TensorType
            || (argument.type()->kind() == c10::TypeKind::ListType
                && argument.type()->containedTypes().front()->kind() == c10::TypeKind::TensorType);
    });
}

class Compiler
{
public:
    Compiler(const ExportedProgram& exported, const CompileOptions& options)
        : exported_(exported)
        , options_(options)
        , operands_(options.device, exportedOn(exported))
    {
    }
    GraphProgram compile();

private:
    void graph(const Graph& graph, Names& names);
    void node(const Node& node, Names& names);
    void operatorCall(const Node& node, Names& names);
    void sizeNode(const Node& node, Names& names);
    void assertion(const Node& node, const Names& names);
    void innerGraph(const Node& node, Names& names);
    std::size_t enterScope(const Node& node);
    void enterModules(const Node& node);
    void leaveModules(std::size_t depth);

    Slot define(const std::string& name, Names& names);
    std::vector<std::vector<Slot>> defineResults(const std::vector<Argument>& outputs, Names& names);
    Slot resultSlot(const Argument& output, const Names& names) const;
    std::string place(const Node& node) const;
    FrameId frame(const Node& node);
    void add(decltype(Instruction::action) action, const Node* node = nullptr);

    const ExportedProgram& exported_;
    const CompileOptions& options_;
    OperandMaker operands_;
    GraphProgram program_;
    std::vector<std::string> open_; ///< open module calls, without the root's
    std::map<std::tuple<FrameId, std::string, std::uint32_t, std::string>, FrameId> frames_; ///< by caller and line
};

void Compiler::add(decltype(Instruction::action) action, const Node* node)
{
    program_.instructions.push_back(
        {std::move(action), {}, node ? frame(*node) : FrameId(), node ? place(*node) : std::string()});
}

/// Returns the innermost frame of a node. Equal frames have one number.
FrameId Compiler::frame(const Node& node)
{
    FrameId innermost;
    for (const Node::Line& line : node.lines) {
        const auto [entry, isNew] = frames_.try_emplace({innermost, line.file, line.line, line.function});
        if (isNew)
            entry->second = sim::addFrame({innermost, line.file, line.function, line.line});
        innermost = entry->second;
    }
    return innermost;
}

Slot Compiler::define(const std::string& name, Names& names)
{
    const Slot slot(static_cast<std::uint32_t>(program_.slots++));
    names.insert_or_assign(name, slot);
    return slot;
}

std::string Compiler::place(const Node& node) const
{
    std::string target = node.target;
    if (target.starts_with(operatorPrefix))
        target = target.substr(operatorPrefix.size());
    const std::string module = options_.nameOf(node.frames.empty() ? "" : node.frames.back().fqn);
    return target + " in " + module
        + (node.lines.empty() ? ""
                              : " (" + node.lines.back().file + ":" + std::to_string(node.lines.back().line) + ")");
}

void Compiler::leaveModules(std::size_t depth)
{
    for (; open_.size() > depth; open_.pop_back())
        add(ExitModule{});
}

void Compiler::enterModules(const Node& node)
{
    // A node that exporting added runs in the open module.
    if (node.frames.empty())
        return;
    std::vector<const Node::Frame*> frames;
    for (const Node::Frame& frame : node.frames)
        if (!frame.fqn.empty())
            frames.push_back(&frame);
    std::size_t common = 0;
    while (common < open_.size() && common < frames.size() && open_[common] == frames[common]->call)
        ++common;
    leaveModules(common);
    for (; common < frames.size(); ++common) {
        open_.push_back(frames[common]->call);
        add(EnterModule{.module = options_.moduleOf(frames[common]->fqn), .arguments = {}});
    }
}

std::vector<std::vector<Slot>> Compiler::defineResults(const std::vector<Argument>& outputs, Names& names)
{
    std::vector<std::vector<Slot>> results;
    for (const Argument& output : outputs) {
        std::vector<Slot>& slots = results.emplace_back();
        for (const Argument::Element& element : output.elements)
            slots.push_back(element.name.empty() ? Slot() : define(element.name, names));
    }
    return results;
}

void Compiler::operatorCall(const Node& node, Names& names)
{
    if (!node.target.starts_with(operatorPrefix))
        throw Uncompilable{"is no operator that Headroom knows"};
    const auto op = c10::Dispatcher::singleton().findSchema(operatorName(node.target));
    if (!op)
        throw Uncompilable{"is an operator that libtorch does not have; operators that Python code defines cannot be "
                           "recorded from a file"};
    const c10::FunctionSchema& schema = op->schema();
    if (!isTensorOperator(schema))
        throw Uncompilable{refusedOperator};
    CallOperator call{*op, {}, {}, node.target == "torch.ops.aten.view.default"};
    const bool isFactory = !takesTensors(schema);
    for (const c10::Argument& formal : schema.arguments()) {
        const auto given = std::ranges::find(node.inputs, formal.name(), &std::pair<std::string, Argument>::first);
        Argument argument;
        if (given != node.inputs.end())
            argument = given->second;
        else if (formal.default_value())
            argument.constant = *formal.default_value();
        else if (formal.type()->kind() != c10::TypeKind::OptionalType)
            throw Uncompilable{"lacks the argument '" + formal.name() + "'"};
        const bool noDevice = argument.kind == Argument::ArgumentType::constant && argument.constant.isNone();
        if (isFactory && formal.name() == "device" && noDevice)
            argument.constant = at::Device(at::kCPU);
        call.operands.push_back(operands_.make(argument, *formal.type(), names));
    }
    if (node.outputs.size() > schema.returns().size())
        throw Uncompilable{"has " + std::to_string(node.outputs.size()) + " results in the file, and the operator "
                           + std::to_string(schema.returns().size())};
    call.results = defineResults(node.outputs, names);
    add(std::move(call), &node);
}

void Compiler::sizeNode(const Node& node, Names& names)
{
    Compute compute{sizeFunction(node.target), {}, {}};
    for (const auto& [name, argument] : node.inputs)
        compute.operands.push_back(operands_.makePlain(argument, names));
    if (node.outputs.size() != 1 || node.outputs.front().elements.size() != 1)
        throw Uncompilable{"should have a single result"};
    compute.result = define(node.outputs.front().elements.front().name, names);
    add(std::move(compute), &node);
}

void Compiler::assertion(const Node& node, const Names& names)
{
    if (node.inputs.empty())
        throw Uncompilable{"asserts nothing"};
    Compute compute{};
    compute.operands.push_back(operands_.makePlain(node.inputs.front().second, names));
    std::string message = "the model's own check fails at these sizes";
    if (node.inputs.size() > 1 && node.inputs[1].second.constant.isString())
        message += ": " + node.inputs[1].second.constant.toStringRef();
    compute.function = [message](const std::vector<c10::IValue>& values) -> c10::IValue {
        const c10::IValue& value = values.front();
        TORCH_CHECK(value.isBool() ? value.toBool() : value.isScalar() && value.toScalar().toDouble() != 0, message);
        return {};
    };
    add(std::move(compute), &node);
}

/// Begins the scope of a higher-order operator around the graph; returns the position of the graph in the node's
/// inputs.
std::size_t Compiler::enterScope(const Node& node)
{
    const std::string name = node.target.substr(higherOrderPrefix.size());
    const auto constant = [&](std::size_t position) -> const c10::IValue& {
        if (position >= node.inputs.size())
            throw Uncompilable{"lacks an argument"};
        return node.inputs[position].second.constant;
    };
    if (name == "wrap_with_set_grad_enabled") {
        if (!constant(0).isBool())
            throw Uncompilable{"should say true or false first"};
        add(EnterGradMode{constant(0).toBool()}, &node);
        return 1;
    }
    if (name == "wrap_with_autocast") {
        if (!constant(0).isString() || !constant(2).isBool())
            throw Uncompilable{"should have a device type, an element type and a flag for autocast"};
        EnterAutocast scope;
        const at::Device device(constant(0).toStringRef());
        const bool everywhere = options_.device.type() == at::kPrivateUse1;
        scope.device = everywhere || device.type() != at::kCUDA ? operands_.deviceFor(device.type()) : device.type();
        if (constant(1).isInt())
            scope.dtype = static_cast<at::ScalarType>(constant(1).toInt());
        scope.enabled = constant(2).toBool();
        if (constant(3).isBool())
            scope.cache = constant(3).toBool();
        add(scope, &node);
        return 4;
    }
    throw Uncompilable{"is a higher-order operator that Headroom does not run"};
}

void Compiler::innerGraph(const Node& node, Names& names)
{
    const std::size_t position = enterScope(node);
    if (position >= node.inputs.size() || node.inputs[position].second.kind != Argument::ArgumentType::graph)
        throw Uncompilable{"should have a graph as argument"};
    const Graph& inner = *node.inputs[position].second.graph;
    if (inner.inputs.size() != node.inputs.size() - position - 1)
        throw Uncompilable{"gives another number of inputs than the graph takes"};
    Names innerNames;
    for (std::size_t i = 0; i < inner.inputs.size(); ++i) {
        const Operand given = operands_.makePlain(node.inputs[position + 1 + i].second, names);
        const std::vector<Argument::Element>& formal = inner.inputs[i].elements;
        if (formal.size() == 1 && given.elements.front().slot.valid())
            innerNames.insert_or_assign(formal.front().name, given.elements.front().slot);
        else if (!formal.empty())
            throw Uncompilable{"gives a constant to a graph, and Headroom runs no such graph"};
    }
    const std::size_t depth = open_.size();
    graph(inner, innerNames);
    leaveModules(depth);
    add(LeaveScope{});

    std::vector<Slot> results;
    for (const Argument& output : inner.outputs)
        results.push_back(resultSlot(output, innerNames));
    std::size_t next = 0;
    for (const Argument& output : node.outputs) {
        for (const Argument::Element& element : output.elements) {
            if (next >= results.size())
                throw Uncompilable{"has more results than the graph"};
            if (!element.name.empty() && results[next].valid())
                names.insert_or_assign(element.name, results[next]);
            ++next;
        }
    }
}

void Compiler::node(const Node& node, Names& names)
{
    try {
        if (isTracingCheck(node.target))
            return;
        enterModules(node);
        if (node.target == "torch.ops.aten._assert_scalar.default")
            assertion(node, names);
        else if (node.target.starts_with(higherOrderPrefix))
            innerGraph(node, names);
        else if (sizeFunction(node.target))
            sizeNode(node, names);
        else
            operatorCall(node, names);
    } catch (const Uncompilable& fault) {
        if (fault.message.starts_with(exported_.name))
            throw; // the fault of a node in an inner graph already has a place
        throw Uncompilable{exported_.name + ": " + place(node) + " " + fault.message};
    }
}

void Compiler::graph(const Graph& graph, Names& names)
{
    for (const Node& one : graph.nodes)
        node(one, names);
}

Slot Compiler::resultSlot(const Argument& output, const Names& names) const
{
    if (output.kind != Argument::ArgumentType::value || output.elements.empty())
        return {};
    const auto found = names.find(output.elements.front().name);
    if (found == names.end())
        throw Uncompilable{exported_.name + ": the graph returns '" + output.elements.front().name
                           + "', but no node makes that value"};
    return found->second;
}

GraphProgram Compiler::compile()
{
    Names names;
    for (const InputSpec& input : exported_.inputs) {
        const bool named = input.argument.kind == Argument::ArgumentType::value && !input.argument.elements.empty();
        program_.inputs.push_back(
            {named ? define(input.argument.elements.front().name, names) : Slot(),
             input.kind == InputSpec::InputKind::user || input.kind == InputSpec::InputKind::constant});
    }
    add(EnterModule{.module = options_.moduleOf(""), .arguments = {}});
    graph(exported_.graph, names);
    leaveModules(0);
    for (const OutputSpec& output : exported_.outputs) {
        const Slot slot = resultSlot(output.argument, names);
        if (output.kind == OutputSpec::OutputKind::mutation)
            program_.mutations.push_back({slot, output.target});
        else if (slot.valid())
            program_.results.push_back(slot);
    }
    add(ExitModule{});
    addLifetimes(program_, options_.lifetimes);
    return std::move(program_);
}

} // namespace

Result<GraphProgram> compileGraph(const ExportedProgram& program, const CompileOptions& options)
{
    try {
        return Compiler(program, options).compile();
    } catch (const Uncompilable& fault) {
        return badInput(fault.message);
    }
}

} // namespace headroom::exported
