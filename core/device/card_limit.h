// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/device/stream_observer.h"

namespace headroom::sim {

/// What programs may take of the simulated card: what CUDA's context, cuBLAS and the communicators of NCCL that there
/// are leave (core/cost/card_memory.h). 0: there is no limit.
Bytes usableOfCard();

/// Limits the card to a share of its memory, as torch.cuda.set_per_process_memory_fraction does. Above 1 it is a card
/// of that many times the memory, of which nothing is taken off.
void limitCard(double fraction);

/// Ranks of a node, for the connections that NCCL makes.
void setRanksPerNode(std::int64_t ranks);
/// Takes off the card what NCCL's communicator of a group holds, when the first communication of the group comes.
void addCommunicator(const Communication& communication);

} // namespace headroom::sim
