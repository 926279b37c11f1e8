// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/cost/card_memory.h"
#include "core/device/stream_observer.h"

#include <string>

namespace headroom::sim {

/// Returns the bytes of the simulated card that programs may use: the memory without CUDA's context, cuBLAS's workspace
/// and the NCCL communicators that exist now (core/cost/card_memory.h). 0: there is no limit.
Bytes usableOfCard();
/// Returns the NCCL communicators that exist now.
NcclMemory communicators();
/// Returns what takes the rest of the card: "CUDA's context and cuBLAS's workspaces", and NCCL's buffers with their
/// size if there are communicators.
std::string restOfCard();

/// Limits the card to that memory. `times` above 1 simulates a GPU with that many times the memory, all usable.
void limitCard(double times = 1);

/// Limits the program to a share of the card's memory, as torch.cuda.set_per_process_memory_fraction() does.
void setMemoryFraction(double fraction);

/// Sets the number of ranks on a node: NCCL's connections depend on this number.
void setRanksPerNode(std::int64_t ranks);
/// Subtracts the memory of a group's NCCL communicator from the card, at the first communication of the group.
void addCommunicator(const Communication& communication);

} // namespace headroom::sim
