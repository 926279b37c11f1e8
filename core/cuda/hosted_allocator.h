// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/hosted_memory.h"

namespace headroom {

/// Routes the memory of tensors on a GPU through `host`; null: torch's allocator alone. Workspaces, allocated
/// by libraries without a tensor, bypass the host: no plan can know their sizes.
void setCudaHost(MemoryHost* host, c10::DeviceIndex device);

} // namespace headroom
