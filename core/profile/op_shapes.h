// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/op_signature.h"
#include "core/profile/profile.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// The call of an op in a trace, as the cost formulas take it.
struct OpShapes
{
    std::string name; ///< without the overload, which traces lack: "aten.mm"
    std::vector<TensorShape> inputs; ///< tensor arguments in the schema's order
    std::vector<TensorShape> outputs; ///< not in the trace: computed from the op and its arguments
    ConvolutionArguments convolution;
    OpSignature call;
    DType dtype = DType::other; ///< dtype of the first result
};

/// Converts "aten::mm" to the name in a step, "aten.mm".
std::string stepOpName(std::string_view traceName);

/// Returns the shapes of an op; nullopt if the trace has no shapes, or the results do not follow from them. `kernel` is
/// the first kernel that the op launched; its name has the element type of a list of tensors.
std::optional<OpShapes> opShapes(const Profile& profile, const Profile::Span& span, std::string_view kernel);

} // namespace headroom
