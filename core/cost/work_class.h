// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/op_work.h"

#include <cstdint>
#include <string_view>

namespace headroom {

/// Number of elements of a tensor, those of expanded dimensions included.
double numel(const TensorShape& tensor);

/// The class of an op's kernels, from a table of names, or from its shapes if its name is not in the table. `packet` is
/// the name without the overload ("aten.addmm"); `flags` are OpFlag.
WorkClass workClassOf(std::string_view packet, const OpSignature& signature, std::uint16_t flags);

} // namespace headroom
