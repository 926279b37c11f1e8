// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom::sim {

/// From now on collectives of torch.distributed on the simulated device ask no other process.
void registerCollectives();

/// The same of collectives on the CPU: this process is one of a job of which the others are not there.
void registerCpuCollectives();

} // namespace headroom::sim
