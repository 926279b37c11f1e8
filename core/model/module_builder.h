// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/record/recorder.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

namespace headroom::demo {

/// The initial values of a new parameter or buffer. Tensors on the simulated device have no values.
struct Initial
{
    enum class Kind { zero, one, normal, uniform } kind = Kind::zero;
    double scale = 1; ///< standard deviation of normal, bound of uniform

    static Initial zero() { return {Kind::zero, 0}; }
    static Initial one() { return {Kind::one, 1}; }
    static Initial normal(double deviation) { return {Kind::normal, deviation}; }
    static Initial uniform(double bound) { return {Kind::uniform, bound}; }
};

/// Builds a ModelTree as nn.Module's constructors do. Modules are in the order of model.modules(): a module before its
/// children, children in the order of their assignment. Names are those of ModTracker.
class ModuleBuilder
{
public:
    ModuleBuilder(at::Device device, at::ScalarType dtype);

    ModuleId root(std::string_view type);
    ModuleId child(ModuleId parent, std::string_view name, std::string_view type);

    at::Tensor parameter(ModuleId owner, std::string_view name, at::IntArrayRef sizes, Initial initial);
    at::Tensor buffer(ModuleId owner, std::string_view name, at::IntArrayRef sizes, Initial initial);
    /// Creates a buffer of one int64, as BatchNorm's num_batches_tracked.
    at::Tensor counter(ModuleId owner, std::string_view name);
    /// Adds a second owner of a parameter: a tied weight.
    void share(ModuleId owner, std::string_view name, const at::Tensor& parameter);

    ModelTree take() { return std::move(tree_); }

private:
    at::Tensor create(ModuleId owner, std::string_view name, at::IntArrayRef sizes, at::ScalarType dtype,
                      Initial initial, Category category);

    at::TensorOptions options_;
    ModelTree tree_;
};

} // namespace headroom::demo
