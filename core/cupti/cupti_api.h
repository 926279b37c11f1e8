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

/// The functions of CUPTI that Headroom calls, found at run time: a program that holds this table starts on a machine
/// without anything of NVIDIA's. Tests fill it with functions of their own.
struct CuptiApi
{
    std::string library; ///< by which name it was found
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

/// The library that is in the process already, as torch's CUDA build brings it, or one of the usual names. Errors
/// (noDevice) are one sentence: none is there, too old, without a function.
Result<CuptiApi> loadCupti(const std::vector<std::string>& names = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"});

/// Why kernel times cannot be had, and what to do about it, as one sentence. `call` is the function that failed.
Error cuptiError(const CuptiApi& api, CUptiResult result, std::string_view call);

} // namespace headroom::cupti
