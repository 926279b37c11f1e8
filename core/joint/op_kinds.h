// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string_view>

namespace headroom {

/// The classes in which torch._functorch's partitioner puts an op, by its name alone (torch/_functorch/partitioners.py,
/// get_default_op_list).
struct OpKind
{
    bool recomputable = false; ///< cheap: pointwise, views, reductions, factories
    bool fusible = false; ///< can share a kernel with the ops before and after it
    bool computeIntensive = false;
    bool random = false;
    bool concatenation = false; ///< any op before it can be fused into it
    bool updatesStatistics = false; ///< batch normalisation: also changes its running statistics
};

/// Returns the kind of an op by its name as PyTorch prints an OpOverload: "aten.mm.default". An in-place op has the
/// kind of the op without the underscore, as the partitioner sees functional graphs.
OpKind opKind(std::string_view name);

} // namespace headroom
