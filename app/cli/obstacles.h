// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/plan_answer.h"

#include <iosfwd>
#include <span>

namespace headroom::cli {

/// Print the first module, and the number of the others. printNotCheckpointable() is for modules that no plan may
/// checkpoint, although that would free memory.
void printNotCheckpointable(std::span<const Obstacle> modules, std::ostream& out);
void printWholeOnly(std::span<const Obstacle> modules, std::ostream& out);

} // namespace headroom::cli
