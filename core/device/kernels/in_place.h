// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>

namespace headroom::sim {

/// Checks that `source` can be expanded to the sizes of `self`, which an op writes in place; throws as
/// at::Tensor::expand() does.
inline void requireExpandable(const at::Tensor& source, const at::Tensor& self)
{
    if (source.sizes() != self.sizes())
        at::inferExpandGeometry(source.sizes(), source.strides(), self.sizes());
}

} // namespace headroom::sim
