// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom::sim {

/// Blocks until autograd's thread of the simulated device has released everything that earlier backward passes gave it.
/// A backward pass returns to its caller a moment before that thread drops its last tensors, and dropping them may need
/// the GIL. Python 3.11 and older end a thread that requests the GIL during shutdown, and with it the process
/// (std::terminate). The caller must not hold the GIL. Throws c10::Error in a process that was forked after a backward
/// pass.
void awaitAutogradThread();

} // namespace headroom::sim
