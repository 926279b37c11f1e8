// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom::sim {

/// Registers kernels with which collectives of torch.distributed on the simulated device contact no other process.
void registerCollectives();

/// Does the same for collectives on the CPU, for a process that simulates one rank while the other ranks do not run.
void registerCpuCollectives();

} // namespace headroom::sim
