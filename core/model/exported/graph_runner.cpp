// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/exported/exported_model.h"

#include "core/device/source_frames.h"
#include "core/device/unsupported.h"
#include "core/model/autocast_scope.h"
#include "core/model/source.h"

#include <ATen/InferSize.h>
#include <ATen/ScalarOps.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/reshape.h>

#include <optional>

namespace headroom::exported {
namespace {

using c10::IValue;

/// Makes a list from elements: constants, and values of the program.
template <class Element, class Read>
IValue listValue(const std::vector<Operand::Element>& elements, Read read)
{
    c10::List<Element> list;
    list.reserve(elements.size());
    for (const Operand::Element& element : elements)
        list.push_back(read(element));
    return list;
}

IValue wrappedNumber(const IValue& value)
{
    if (!value.isScalar())
        return value;
    at::Tensor tensor = c10::scalar_to_tensor(value.toScalar());
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
}

/// Whether a tensor with the strides can be seen in another shape without a copy.
bool canBeViewed(const at::Tensor& tensor, at::IntArrayRef shape)
{
    const auto sizes = at::infer_size_dv(shape, tensor.numel());
    return at::detail::computeStride(tensor.sizes(), tensor.strides(), sizes).has_value();
}

} // namespace

struct GraphRunner::Scope
{
    std::optional<at::AutoGradMode> gradMode;
    std::optional<AutocastScope> autocast;
};

GraphRunner::GraphRunner(const GraphProgram& program, FixedValues fixed)
    : program_(program)
    , values_(program.slots)
    , fixed_(std::move(fixed))
{
    for (const auto& [slot, value] : *fixed_)
        set(slot, value);
}

GraphRunner::~GraphRunner()
{
    while (!scopes_.empty())
        scopes_.pop_back();
    for (; !calls_.empty(); calls_.pop_back())
        Recorder::exit(calls_.back().id, {});
}

void GraphRunner::run()
{
    run(0, program_.instructions.size());
}

void GraphRunner::run(std::size_t begin, std::size_t end)
{
    for (std::size_t i = begin; i < end; ++i) {
        const Instruction& instruction = program_.instructions[i];
        try {
            execute(instruction);
        } catch (const sim::CannotSimulate&) {
            throw; // the error names the operator, and StepRunner adds the module
        } catch (const c10::OutOfMemoryError&) {
            throw;
        } catch (const c10::Error& error) {
            throw ModelFailed(instruction.place + ": " + firstLine(error));
        }
    }
}

void GraphRunner::execute(const Instruction& instruction)
{
    const auto die = [&] {
        for (const Slot slot : instruction.dying)
            values_[slot.value] = {};
    };
    const sim::FrameScope frame(instruction.frame);
    // A forward's local variables die before the forward returns.
    const bool leaves = std::holds_alternative<ExitModule>(instruction.action);
    if (leaves)
        die();
    std::visit([this](const auto& action) { act(action); }, instruction.action);
    if (!leaves)
        die();
}

IValue GraphRunner::value(const Operand& operand) const
{
    const auto read = [this](const Operand::Element& element) {
        return element.slot.valid() ? values_[element.slot.value] : element.constant;
    };
    switch (operand.kind) {
    case Operand::OperandType::constant:
    case Operand::OperandType::value:
        return read(operand.elements.front());
    case Operand::OperandType::wrappedNumber:
        return wrappedNumber(read(operand.elements.front()));
    case Operand::OperandType::tensors:
        return listValue<at::Tensor>(operand.elements, [&](const auto& element) { return read(element).toTensor(); });
    case Operand::OperandType::optionalTensors:
        return listValue<std::optional<at::Tensor>>(
            operand.elements, [&](const auto& element) { return read(element).template toOptional<at::Tensor>(); });
    case Operand::OperandType::integers:
        return listValue<std::int64_t>(operand.elements, [&](const auto& element) { return read(element).toInt(); });
    case Operand::OperandType::numbers:
        return listValue<double>(operand.elements,
                                 [&](const auto& element) { return read(element).toScalar().toDouble(); });
    }
    return {};
}

std::vector<at::Tensor> GraphRunner::tensors(const std::vector<Slot>& slots) const
{
    std::vector<at::Tensor> tensors;
    for (const Slot slot : slots)
        if (values_[slot.value].isTensor())
            tensors.push_back(values_[slot.value].toTensor());
    return tensors;
}

void GraphRunner::act(const CallOperator& call)
{
    torch::jit::Stack stack;
    stack.reserve(call.operands.size());
    for (const Operand& operand : call.operands)
        stack.push_back(value(operand));
    if (call.isView && !canBeViewed(stack[0].toTensor(), stack[1].toDimVector()))
        stack = {at::reshape(stack[0].toTensor(), stack[1].toDimVector())};
    else
        call.op.callBoxed(stack);
    for (std::size_t i = 0; i < call.results.size(); ++i) {
        const std::vector<Slot>& slots = call.results[i];
        if (slots.size() == 1 && slots.front().valid() && !stack.at(i).isTensorList()) {
            values_[slots.front().value] = std::move(stack.at(i));
            continue;
        }
        for (std::size_t element = 0; element < slots.size(); ++element)
            if (slots[element].valid())
                values_[slots[element].value] = stack.at(i).toTensorList().get(element);
    }
}

void GraphRunner::act(const Compute& compute)
{
    std::vector<IValue> operands;
    for (const Operand& operand : compute.operands)
        operands.push_back(value(operand));
    IValue result = compute.function(operands);
    if (compute.result.valid())
        values_[compute.result.value] = std::move(result);
}

/// Returns a function that runs only the module's part of the program, for a recomputation in backward.
RegionFunction GraphRunner::again(const EnterModule& enter) const
{
    return [&program = program_, fixed = fixed_, &enter](const Values& inputs) {
        const ModuleCallScope unhandled(nullptr);
        GraphRunner runner(program, fixed);
        for (std::size_t i = 0; i < enter.arguments.size(); ++i)
            runner.set(enter.arguments[i], inputs.at(i));
        runner.run(enter.begin, enter.end + 1);
        Values results;
        for (const Slot slot : std::get<ExitModule>(program.instructions[enter.end].action).results)
            results.push_back(runner.get(slot));
        return results;
    };
}

void GraphRunner::act(const EnterModule& enter)
{
    Call call;
    if (ModuleCallHandler* handler = ModuleCallHandler::of(enter.module)) {
        Values arguments;
        for (const Slot slot : enter.arguments)
            arguments.push_back(values_[slot.value]);
        call.handled = handler->open(enter.module, std::move(arguments), again(enter));
    }
    call.id = Recorder::enter(enter.module, tensors(enter.arguments));
    calls_.push_back(std::move(call));
}

void GraphRunner::act(const ExitModule& exit)
{
    const Call call = std::move(calls_.back());
    calls_.pop_back();
    Recorder::exit(call.id, tensors(exit.results));
    if (call.handled)
        call.handled->complete();
}

void GraphRunner::act(const EnterGradMode& enter)
{
    scopes_.push_back(std::make_unique<Scope>());
    scopes_.back()->gradMode.emplace(enter.enabled);
}

void GraphRunner::act(const EnterAutocast& enter)
{
    scopes_.push_back(std::make_unique<Scope>());
    scopes_.back()->autocast.emplace(AutocastScope::Options{enter.device, enter.dtype, enter.enabled, enter.cache});
}

void GraphRunner::act(const LeaveScope&)
{
    scopes_.pop_back();
}

} // namespace headroom::exported
