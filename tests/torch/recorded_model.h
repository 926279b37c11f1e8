// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/simulated_device.h"
#include "core/record/recorder.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace headroom {

using Sizes = std::vector<std::int64_t>;

/// The card that tests of the recorder simulate.
const DeviceSpec& card();
at::Tensor emptyOnCard(Sizes sizes, at::ScalarType type = at::kFloat);

/// Modules and parameters of a test's model.
class Model
{
public:
    explicit Model(const std::string& name);

    ModuleId add(const std::string& fqn, ModuleId parent = ModuleId(0));
    at::Tensor parameter(ModuleId module, const std::string& name, Sizes sizes, at::ScalarType type = at::kFloat);
    at::Tensor buffer(ModuleId module, const std::string& name, Sizes sizes);
    const ModelTree& tree() const { return tree_; }
    const std::vector<at::Tensor>& parameters() const { return parameters_; }
    void clearGradients();

    /// A module's forward, announced to the recorder.
    static at::Tensor call(ModuleId module, const at::Tensor& input,
                           const std::function<at::Tensor(const at::Tensor&)>& forward);

private:
    ModelTree tree_;
    std::vector<at::Tensor> parameters_;
};

/// Models whose parameters the function adds; what it returns runs forward and gives the loss.
using Forward = std::function<at::Tensor()>;
Forward mlp(Model& model); ///< linear, gelu, dropout, relu, mean squared error
Forward transformer(Model& model, at::ScalarType type); ///< layer norm, attention, residual, tied embedding
Forward residual(Model& model); ///< convolution, batch norm, in-place relu and residual, pooling

} // namespace headroom
