// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/List_inl.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace headroom {

/// Whether a boxed value may hold tensors in a list.
inline bool isListOfTensors(const c10::IValue& value)
{
    return value.isTensorList()
        || (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList());
}

/// Calls visit(tensor) for each defined tensor in a boxed argument or result, in order. Lists of lists, which
/// collectives take, are searched too.
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
