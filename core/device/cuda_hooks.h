// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom::sim {

/// Has libtorch take the simulated device's CUDA hooks (generator, pinned memory, device count) rather than those of
/// libtorch_cuda. It asks for them once, while Python imports torch: call this before.
void claimCudaHooks();

/// Whether libtorch uses them.
bool ownsCudaHooks();

} // namespace headroom::sim
