// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/MT19937RNGEngine.h>

#include <cstdint>

namespace headroom::sim {

/// Returns the state of `engine` after `count` draws, without drawing: a model of a billion parameters draws as many
/// numbers at initialisation. All steps of the Mersenne Twister together are a single polynomial over the field of two
/// elements, applied to the state (Haramoto, Matsumoto, Nishimura, Panneton, L'Ecuyer: "Efficient Jump Ahead for
/// F2-Linear Random Number Generators", 2008). A jump takes a millisecond for any count.
at::mt19937 afterDraws(const at::mt19937& engine, std::uint64_t count);

} // namespace headroom::sim
