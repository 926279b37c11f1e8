// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/exported/graph_program.h"

#include <ATen/core/jit_type.h>

namespace headroom::exported {
namespace {

using c10::IValue;
using c10::TypeKind;

Slot slotOf(const std::string& name, const OperandMaker::Names& names)
{
    const auto found = names.find(name);
    if (found == names.end())
        throw Uncompilable{"uses '" + name + "', but no earlier node makes that value"};
    return found->second;
}

Operand::Element elementOf(const Argument::Element& element, const OperandMaker::Names& names)
{
    return element.name.empty() ? Operand::Element{Slot(), element.constant}
                                : Operand::Element{slotOf(element.name, names), {}};
}

const c10::Type& withoutOptional(const c10::Type& type)
{
    const c10::Type* inner = &type;
    while (inner->kind() == TypeKind::OptionalType)
        inner = inner->containedTypes().front().get();
    return *inner;
}

std::vector<double> asDoubles(const c10::List<std::int64_t>& integers)
{
    return {integers.begin(), integers.end()};
}

/// Whether a constant has the type of an operator's argument. libtorch would fail an assertion for another type.
bool fits(const IValue& constant, const c10::Type& formal)
{
    switch (formal.kind()) {
    case TypeKind::IntType:
    case TypeKind::SymIntType:
        return constant.isInt();
    case TypeKind::FloatType:
        return constant.isDouble();
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
        return constant.isBool();
    case TypeKind::NumberType:
        return constant.isScalar();
    case TypeKind::StringType:
        return constant.isString();
    case TypeKind::DeviceObjType:
        return constant.isDevice();
    case TypeKind::ListType: {
        const c10::Type& element = withoutOptional(*formal.containedTypes().front());
        switch (element.kind()) {
        case TypeKind::IntType:
        case TypeKind::SymIntType:
            return constant.isIntList();
        case TypeKind::FloatType:
            return constant.isDoubleList();
        case TypeKind::BoolType:
            return constant.isBoolList();
        case TypeKind::StringType:
            return constant.isList();
        default:
            return false;
        }
    }
    default:
        return false;
    }
}

} // namespace

at::DeviceType OperandMaker::deviceFor(at::DeviceType inFile) const
{
    const bool elsewhere = inFile == at::kCPU && exportedOn_ != at::kCPU && exportedOn_ != at::kMeta;
    return elsewhere ? at::kCPU : device_.type();
}

IValue OperandMaker::constantFor(const IValue& constant, const c10::Type& formal) const
{
    if (constant.isDevice()) {
        const at::DeviceType type = deviceFor(constant.toDevice().type());
        return type == device_.type() ? IValue(device_) : IValue(at::Device(type));
    }
    const TypeKind kind = formal.kind();
    if (constant.isInt() && kind == TypeKind::FloatType)
        return static_cast<double>(constant.toInt());
    if (kind == TypeKind::ListType) {
        const TypeKind element = withoutOptional(*formal.containedTypes().front()).kind();
        if (constant.isIntList() && element == TypeKind::FloatType)
            return asDoubles(constant.toIntList());
        const bool integers = element == TypeKind::IntType || element == TypeKind::SymIntType;
        if (constant.isInt() && integers)
            return c10::List<std::int64_t>({constant.toInt()});
    }
    return constant;
}

Operand OperandMaker::list(const Argument& argument, const c10::Type& element, const Names& names) const
{
    Operand operand;
    const TypeKind kind = withoutOptional(element).kind();
    if (element.kind() == TypeKind::OptionalType && kind == TypeKind::TensorType)
        operand.kind = Operand::OperandType::optionalTensors;
    else if (kind == TypeKind::TensorType)
        operand.kind = Operand::OperandType::tensors;
    else if (kind == TypeKind::IntType || kind == TypeKind::SymIntType)
        operand.kind = Operand::OperandType::integers;
    else if (kind == TypeKind::FloatType)
        operand.kind = Operand::OperandType::numbers;
    else
        throw Uncompilable{"got a list where the operator takes a list of " + element.annotation_str()};
    for (const Argument::Element& one : argument.elements)
        operand.elements.push_back(elementOf(one, names));
    return operand;
}

Operand OperandMaker::make(const Argument& argument, const c10::Type& formalOrOptional, const Names& names) const
{
    const c10::Type& formal = withoutOptional(formalOrOptional);
    const auto refuse = [&] { throw Uncompilable{"got an argument that is no " + formalOrOptional.annotation_str()}; };
    if (argument.kind == Argument::ArgumentType::graph)
        refuse();
    if (argument.kind == Argument::ArgumentType::list) {
        if (formal.kind() != TypeKind::ListType)
            refuse();
        return list(argument, *formal.containedTypes().front(), names);
    }
    Operand operand = makePlain(argument, names);
    if (operand.elements.front().slot.valid()) {
        // The type of a value is known only at run time: an argument that is a tensor may get a number.
        if (formal.kind() == TypeKind::TensorType)
            operand.kind = Operand::OperandType::wrappedNumber;
        return operand;
    }
    IValue& constant = operand.elements.front().constant;
    if (constant.isNone()) {
        if (&formal == &formalOrOptional && formal.kind() != TypeKind::TensorType)
            refuse();
        return operand;
    }
    if (formal.kind() == TypeKind::TensorType && constant.isScalar()) {
        operand.kind = Operand::OperandType::wrappedNumber;
        return operand;
    }
    constant = constantFor(constant, formal);
    if (constant.isIntList() && formal.kind() == TypeKind::ListType && constant.toIntList().empty())
        return list(Argument(), *formal.containedTypes().front(), names);
    if (!fits(constant, formal))
        refuse();
    return operand;
}

Operand OperandMaker::makePlain(const Argument& argument, const Names& names) const
{
    if (argument.kind == Argument::ArgumentType::value)
        return {Operand::OperandType::value, {elementOf(argument.elements.front(), names)}};
    if (argument.kind == Argument::ArgumentType::constant)
        return {Operand::OperandType::constant, {{Slot(), argument.constant}}};
    throw Uncompilable{"takes a single value, but got a list or a graph"};
}

} // namespace headroom::exported
