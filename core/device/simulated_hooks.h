// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom::sim {

/// Tells libtorch of the device's hooks (generator, resizing of storages). Once in a process.
void registerHooks();

} // namespace headroom::sim
