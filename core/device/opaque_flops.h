// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom::sim {

/// Returns the total of the flops that were declared for opaque kernels (kernels/opaque.cpp) in this thread. The
/// recorder compares it before and after an op, since an op of another library may launch such a kernel.
double opaqueFlops();

} // namespace headroom::sim
