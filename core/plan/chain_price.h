// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_relaxation.h"

namespace headroom {

/// Relaxes a chain problem with one price for all its memory rows. The bound is weaker than that of relax(), but a
/// problem of thousands of different parts takes a few milliseconds, so that there is an answer before GLPK's.
ChainRelaxation relaxWithOnePrice(const ChainProblem& problem, Bytes budget);

} // namespace headroom
