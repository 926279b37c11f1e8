// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string_view>

namespace headroom {

/// What torch._functorch's partitioner thinks of an op, from its name alone
/// (torch/_functorch/partitioners.py, get_default_op_list).
struct OpKind
{
    bool recomputable = false; ///< cheap: pointwise, views, reductions, factories
    bool fusible = false; ///< can share a kernel with the ops before and after it
    bool computeIntensive = false;
    bool random = false;
    bool concatenation = false; ///< whatever is before it can be fused into it
    bool updatesStatistics = false; ///< batch normalisation: changes its running statistics beside making its results
};

/// `name` as PyTorch prints an OpOverload: "aten.mm.default". An in-place op is of the kind of the op without the
/// underscore: the partitioner sees functional graphs.
OpKind opKind(std::string_view name);

} // namespace headroom
