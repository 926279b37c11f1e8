// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace headroom::sim {

/// Runs an op on the simulated device, and on the CPU too if the contents of everything that it reads are known. The
/// results then have their true values, and their true sizes if these depend on values. If only a part of the contents
/// is known, the results have the values that follow from that part (partly_known.h).
void callWithKnownValues(const c10::OperatorHandle& op, torch::jit::Stack* stack);

} // namespace headroom::sim
