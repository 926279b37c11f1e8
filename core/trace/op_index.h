// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

namespace headroom {

/// An OpFlag: a cast of a weight that autocast keeps until it is left. Whether a call runs it depends on the calls
/// before.
inline constexpr std::uint16_t opAutocastCast = 512;

/// Ops that selective checkpointing gives no index, and so never keeps.
inline constexpr std::uint16_t opWithoutIndex = opSacIgnored | opAutocastCast;

} // namespace headroom
