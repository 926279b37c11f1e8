// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/List_inl.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <span>

namespace headroom {

/// Returns the arguments of an op that is about to run: the last values on the stack.
inline std::span<c10::IValue> argumentsOf(const c10::OperatorHandle& op, torch::jit::Stack& stack)
{
    return std::span(stack).last(op.schema().arguments().size());
}
inline std::span<const c10::IValue> argumentsOf(const c10::OperatorHandle& op, const torch::jit::Stack& stack)
{
    return std::span(stack).last(op.schema().arguments().size());
}

/// Takes the arguments from the stack, as every op does. An op without results does nothing else to the stack.
inline void dropArguments(const c10::OperatorHandle& op, torch::jit::Stack* stack)
{
    torch::jit::drop(*stack, op.schema().arguments().size());
}

/// Returns the results of an op that has run.
inline std::span<c10::IValue> resultsOf(const c10::OperatorHandle& op, torch::jit::Stack& stack)
{
    return std::span(stack).last(op.schema().returns().size());
}
inline std::span<const c10::IValue> resultsOf(const c10::OperatorHandle& op, const torch::jit::Stack& stack)
{
    return std::span(stack).last(op.schema().returns().size());
}

/// Whether a boxed value may hold tensors in a list.
inline bool isListOfTensors(const c10::IValue& value)
{
    return value.isTensorList()
        || (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList());
}

/// Calls visit(tensor) for each defined tensor in a boxed argument or result, in order. Lists of lists (the arguments
/// of collectives) are searched too.
template <class Visit>
void forEachTensor(const c10::IValue& value, Visit&& visit)
{
    if (value.isTensor()) {
        const at::Tensor& tensor = value.toTensor();
        if (tensor.defined())
            visit(tensor);
    } else if (isListOfTensors(value)) {
        for (const c10::IValue& element : value.toListRef()) {
            if (!element.isNone())
                forEachTensor(element, visit);
        }
    }
}

/// Returns whether holds(tensor) is true for every defined tensor in a boxed argument or result. Stops at the first
/// false.
template <class Predicate>
bool allTensors(const c10::IValue& value, Predicate&& holds)
{
    if (value.isTensor())
        return !value.toTensor().defined() || holds(value.toTensor());
    if (!isListOfTensors(value))
        return true;
    for (const c10::IValue& element : value.toListRef()) {
        if (!element.isNone() && !allTensors(element, holds))
            return false;
    }
    return true;
}

/// Replaces each defined tensor in a boxed value by map(tensor).
template <class Map>
void mapTensors(c10::IValue& value, Map&& map)
{
    if (value.isTensor()) {
        if (value.toTensor().defined())
            value = map(value.toTensor());
    } else if (isListOfTensors(value)) {
        const auto source = value.toList();
        c10::impl::GenericList mapped(source.elementType());
        mapped.reserve(source.size());
        for (const c10::IValue& element : value.toListRef()) {
            if (element.isTensor() && element.toTensor().defined())
                mapped.push_back(c10::IValue(map(element.toTensor())));
            else
                mapped.push_back(element);
        }
        value = c10::IValue(mapped);
    }
}

} // namespace headroom
