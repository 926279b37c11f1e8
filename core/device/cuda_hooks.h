// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom::sim {

/// Makes libtorch use the simulated device's CUDA hooks (generator, pinned memory, device count) instead of those of
/// libtorch_cuda. Call this before Python imports torch: libtorch queries the hooks once, during the import.
void claimCudaHooks();

/// Returns whether libtorch uses the simulated device's CUDA hooks.
bool ownsCudaHooks();

} // namespace headroom::sim
