// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <cupti.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::cupti {

/// The CUPTI functions that Headroom calls, loaded at run time, so that a program also starts on a machine without
/// NVIDIA software. Tests fill the table with other functions.
struct CuptiApi
{
    std::string library; ///< name under which the library was found
    std::uint32_t version = 0; ///< CUPTI_API_VERSION of the library: 130001 with CUDA 13.0

    decltype(&cuptiGetVersion) getVersion = nullptr;
    decltype(&cuptiGetResultString) getResultString = nullptr;
    decltype(&cuptiActivityRegisterCallbacks) registerCallbacks = nullptr;
    decltype(&cuptiActivityEnable) enable = nullptr;
    decltype(&cuptiActivityDisable) disable = nullptr;
    decltype(&cuptiActivityFlushAll) flushAll = nullptr;
    decltype(&cuptiActivityGetNextRecord) getNextRecord = nullptr;
    decltype(&cuptiActivityGetNumDroppedRecords) getNumDroppedRecords = nullptr;
    decltype(&cuptiActivityPushExternalCorrelationId) pushExternalId = nullptr;
    decltype(&cuptiActivityPopExternalCorrelationId) popExternalId = nullptr;
};

/// Loads CUPTI: the library that is already in the process, as with torch's CUDA build, or the first of `names` that is
/// there. Errors (noDevice): no library, too old, a missing function.
Result<CuptiApi> loadCupti(const std::vector<std::string>& names = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"});

/// Returns an error: a sentence that says why kernel times are not available and what to do. `call` is the function
/// that failed.
Error cuptiError(const CuptiApi& api, CUptiResult result, std::string_view call);

} // namespace headroom::cupti
