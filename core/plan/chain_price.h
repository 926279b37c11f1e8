// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_relaxation.h"

namespace headroom {

/// A chain problem with one price for all memory, wherever it is scarce. It bounds less well than relax(), but
/// thousands of parts that are all different take it a few milliseconds: what there is to show before GLPK has an
/// answer.
ChainRelaxation relaxWithOnePrice(const ChainProblem& problem, Bytes budget);

} // namespace headroom
