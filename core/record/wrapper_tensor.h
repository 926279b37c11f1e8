// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace headroom {

/// The tensors whose memory one of a Python class has that takes ops over, such as DTensor; none: it is no such tensor,
/// or its class does not say. Python answers (packaging/python/torch_headroom/_wrappers.py).
std::vector<at::Tensor> partsOf(const at::Tensor& tensor);

/// The same tensor made of others, without its autograd history.
at::Tensor withParts(const at::Tensor& tensor, const std::vector<at::Tensor>& parts);

} // namespace headroom
