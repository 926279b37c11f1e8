// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// The user's choice of an optimizer. Learning rates and other hyperparameters keep PyTorch's defaults: a
/// hyperparameter changes neither bytes nor time.
struct OptimizerChoice
{
    enum class Algorithm { sgd, adam, adamw };
    Algorithm kind = Algorithm::adam;
    double momentum = 0; ///< SGD only; if not 0, each parameter has one state tensor
};

/// Parses "sgd", "adam" or "adamw". Error (badInput): another name; the sentence lists the known names.
Result<OptimizerChoice::Algorithm> parseOptimizer(std::string_view name);

/// An optimizer in torch.optim's default form on CUDA: the foreach implementation, with the same temporaries and the
/// same order of ops.
class Optimizer
{
public:
    static std::unique_ptr<Optimizer> make(const OptimizerChoice& choice, std::vector<at::Tensor> parameters);
    virtual ~Optimizer() = default;
    Optimizer(const Optimizer&) = delete;
    Optimizer& operator=(const Optimizer&) = delete;

    /// Updates the parameters that have a gradient. The first step creates the state.
    virtual void step() = 0;
    /// Frees the gradients, as zero_grad(set_to_none=True) does.
    void zeroGrad();
    /// Returns the tensors kept between steps, including tensors on the CPU.
    virtual std::vector<at::Tensor> state() const = 0;

protected:
    explicit Optimizer(std::vector<at::Tensor> parameters);
    const std::vector<at::Tensor>& parameters() const { return parameters_; }

private:
    std::vector<at::Tensor> parameters_;
};

} // namespace headroom
