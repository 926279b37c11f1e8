// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <span>
#include <string>

namespace headroom::sim {

/// The check of an op's CUDA kernel that all tensors are on the same device.
enum class DeviceCheck {
    none, ///< not at all, or by separate code
    structured, ///< a structured kernel; as `same`, with the kernel's name spelled differently in the message
    same, ///< any other kernel: all tensors are on the same device
    iterator, ///< TensorIterator's check: an input may be a number on the CPU
    indexed, ///< f(self, indices, values, …): the indices may be on the CPU
    lists, ///< _foreach_ ops: TensorIterator's check of the first tensors of all lists, of the second tensors, …
    masked, ///< f(self, mask, value): the value may be on the CPU
};

/// Returns the name and the overload of an op of `aten`; empty: the op is of another library.
std::string atenNameOf(const c10::OperatorHandle& op);

DeviceCheck deviceCheckOf(const c10::OperatorHandle& op);

/// Throws as CUDA's kernel does if the tensors are on different devices. Call this only for an op with tensors on the
/// simulated device and on another.
void checkDevices(const c10::OperatorHandle& op, const torch::jit::Stack& stack, DeviceCheck check);

/// Throws as the kernels of random ops do if a generator is of another device than the op's tensors.
void checkGenerators(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

/// Throws as CUDA's kernel does if the dtypes of an op's arguments are not what the kernel computes with.
struct TypeCheck
{
    void (*check)(std::span<const c10::IValue> arguments, const char* kernel) = nullptr; ///< null: no check is missing
    const char* kernel = ""; ///< CUDA's name for the kernel, in the error for a type without an implementation
};

/// Returns the missing check: made by CUDA's kernel, but neither by the op's Meta kernel nor by the op's kernel on the
/// device.
TypeCheck typeCheckOf(const c10::OperatorHandle& op);

/// Throws, or warns, as CUDA's kernel does under torch.use_deterministic_algorithms() if the kernel adds up in an order
/// of chance.
void checkDeterminism(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

} // namespace headroom::sim
