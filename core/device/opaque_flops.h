// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom::sim {

/// All flops that opaque kernels (kernels/opaque.cpp) were said to compute in this thread. The recorder compares it
/// before and after an op, which may be another library's and launch one.
double opaqueFlops();

} // namespace headroom::sim
