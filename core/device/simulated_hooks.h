// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom::sim {

/// Registers the device's hooks (generator, resizing of storages) with libtorch. Call it once in a process.
void registerHooks();

} // namespace headroom::sim
