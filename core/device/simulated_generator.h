// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Generator.h>

namespace headroom::sim {

/// Creates a generator that keeps a seed and an offset as CUDA's does; nothing is ever drawn from it.
at::Generator newGenerator();

/// Returns the device's default generator, for programs that pass none of their own.
const at::Generator& defaultGenerator();

} // namespace headroom::sim
