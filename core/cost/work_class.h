// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/op_work.h"

#include <cstdint>
#include <string_view>

namespace headroom {

/// Elements of a tensor, expanded ones included.
double numel(const TensorShape& tensor);

/// The class of an op's kernels: from a table of names, or, where its name is not there, from its shapes. `packet` is
/// without the overload ("aten.addmm"); `flags` are OpFlag.
WorkClass workClassOf(std::string_view packet, const OpSignature& signature, std::uint16_t flags);

} // namespace headroom
