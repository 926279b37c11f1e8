// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom::sim {

/// Returns when autograd's thread of the simulated device has let go of everything that earlier backward passes gave it.
/// A backward pass is over for its caller a moment before that thread drops its last tensors, for which it may need
/// Python's lock: Python 3.11 and older end a thread that asks for it while the program is leaving, and with it the
/// process (std::terminate). The caller must not hold Python's lock. Throws c10::Error in a process that was forked after
/// a backward pass.
void awaitAutogradThread();

} // namespace headroom::sim
