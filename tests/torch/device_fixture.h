// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/simulated_device.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace headroom {

using at::Tensor;
using Tensors = std::vector<Tensor>;

/// A process with the simulated device as an A100.
class Device : public ::testing::Test
{
protected:
    static void SetUpTestSuite() { sim::initialize(*findDeviceSpec("a100-80gb")); }

    static at::TensorOptions on(at::ScalarType type = at::kFloat)
    {
        return at::TensorOptions().device(sim::device()).dtype(type);
    }
    static Tensor empty(std::vector<std::int64_t> sizes, at::ScalarType type = at::kFloat)
    {
        return at::empty(sizes, on(type));
    }
    static Tensor leaf(std::vector<std::int64_t> sizes, at::ScalarType type = at::kFloat)
    {
        return empty(std::move(sizes), type).set_requires_grad(true);
    }
};

} // namespace headroom
