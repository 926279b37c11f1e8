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

/// What an op of a trace was called with, as costs count it.
struct OpShapes
{
    std::string name; ///< without its overload, which a trace does not say: "aten.mm"
    std::vector<TensorShape> inputs; ///< tensor arguments in the schema's order
    std::vector<TensorShape> outputs; ///< which a trace does not say: they follow from the op and its arguments
    ConvolutionArguments convolution;
    OpSignature call;
    DType dtype = DType::other; ///< of the first result
};

/// "aten::mm" as a step names it: "aten.mm".
std::string stepOpName(std::string_view traceName);

/// None where the trace has no shapes, or the results of this op do not follow from them. `kernel`: the first that the
/// op launched; its name says the element type of a list of tensors.
std::optional<OpShapes> opShapes(const Profile& profile, const Profile::Span& span, std::string_view kernel);

} // namespace headroom
