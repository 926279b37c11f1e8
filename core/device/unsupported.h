// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/Exception.h>

#include <string>

namespace headroom::sim {

/// The error for an op that the simulated device cannot run. The message names the op, the cause and what to do. Python
/// sees a NotImplementedError. The device does not know modules: the recorder catches the error and adds the
/// module's name.
class CannotSimulate : public c10::NotImplementedError
{
public:
    CannotSimulate(std::string what, std::string advice)
        : c10::NotImplementedError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, what + ". " + advice)
        , what_(std::move(what))
        , advice_(std::move(advice))
    {
    }

    CannotSimulate inModule(const std::string& fqn) const { return {what_ + " (in " + fqn + ")", advice_}; }

private:
    std::string what_;
    std::string advice_;
};

/// Kernels for tensors that the simulated device does not support: each throws an error that names the op.
void refuseSparse(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void refuseQuantized(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void refuseNested(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void refuseSymmetric(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Returns whether the op belongs to symmetric memory. The Meta kernels of such ops ignore the communication.
bool isSymmetric(const c10::OperatorHandle& op);

/// Throws if a tensor that an op received or created is not dense.
void refuseOthersThanDense(const c10::OperatorHandle& op, const at::Tensor& tensor);

} // namespace headroom::sim
