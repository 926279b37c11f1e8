// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

namespace headroom::cupti {

/// What cuptiActivityGetNextRecord does on a buffer of CUDA 13's records; a kind that it does not know is
/// CUPTI_ERROR_INVALID_KIND.
CUptiResult nextRecord(std::uint8_t* buffer, std::size_t validBytes, CUpti_Activity** record);

} // namespace headroom::cupti
