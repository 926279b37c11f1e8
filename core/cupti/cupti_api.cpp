// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cupti/cupti_api.h"

#include <dlfcn.h>

namespace headroom::cupti {
namespace {

/// The oldest version with records that have all fields that the parser reads.
constexpr std::uint32_t oldestVersion = 18; // CUDA 12.0

template <class Function>
void find(void* library, const char* name, Function& function, std::string& missing)
{
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (!function && missing.empty())
        missing = name;
}

/// "130001" → "13.0.1"; versions up to CUDA 12 are numbered 18, 21, 24, …
std::string versionText(std::uint32_t version)
{
    if (version < 100000)
        return "API version " + std::to_string(version);
    return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "."
        + std::to_string(version % 100);
}

/// Returns the cause of an error and what the user can do (cupti_result.h); empty: no advice is known.
std::string_view advice(CUptiResult result)
{
    switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
        return "this user may not trace the GPU: write `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into a "
               "file of /etc/modprobe.d, rebuild the initramfs and restart, or run as root (in a container with "
               "--cap-add SYS_ADMIN)";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
        return "this virtual GPU does not allow tracing: ask the host's administrator to enable profiling for this GPU";
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
    case CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED:
        return "another profiler is attached to this process: run without Nsight, cuda-gdb, compute-sanitizer or "
               "torch.profiler";
    case CUPTI_ERROR_NOT_INITIALIZED:
    case CUPTI_ERROR_NOT_COMPATIBLE:
        return "NVIDIA's driver is missing or older than CUPTI: update the driver, or install a torch built for the "
               "driver's CUDA";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
        return "CUPTI cannot trace a virtual GPU (vGPU): use a GPU that is passed through whole";
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
        return "CUPTI cannot trace a GPU in confidential-computing mode: switch that mode off to measure kernels";
    case CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED:
        return "CUPTI cannot trace a mining card (CMP)";
    case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED:
        return "CUPTI cannot trace this slice of a GPU (MIG): use the whole GPU";
    case CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED:
        return "CUPTI cannot trace GPUs joined by SLI: switch SLI off";
    case CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED:
        return "CUPTI cannot trace a GPU under WSL without permission: allow access to the GPU's performance counters "
               "in the NVIDIA Control Panel of Windows";
    case CUPTI_ERROR_HARDWARE_BUSY:
        return "the GPU's counters are in use by a monitor such as DCGM: stop the monitor with `dcgmi profile --pause`";
    case CUPTI_ERROR_OUT_OF_MEMORY:
        return "CUPTI has not enough memory for buffers: free memory of the GPU and of the machine";
    default:
        return {};
    }
}

} // namespace

Result<CuptiApi> loadCupti(const std::vector<std::string>& names)
{
    void* library = nullptr;
    CuptiApi api;
    for (const std::string& name : names) {
        library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!library)
            continue;
        api.library = name;
        break;
    }
    if (!library)
        return Error{ErrorKind::noDevice,
                     "kernel times cannot be measured: there is no CUPTI (libcupti.so.13); install the CUDA build of "
                     "torch, or the CUDA toolkit"};
    std::string missing;
    find(library, "cuptiGetVersion", api.getVersion, missing);
    find(library, "cuptiGetResultString", api.getResultString, missing);
    find(library, "cuptiActivityRegisterCallbacks", api.registerCallbacks, missing);
    find(library, "cuptiActivityEnable", api.enable, missing);
    find(library, "cuptiActivityDisable", api.disable, missing);
    find(library, "cuptiActivityFlushAll", api.flushAll, missing);
    find(library, "cuptiActivityGetNextRecord", api.getNextRecord, missing);
    find(library, "cuptiActivityGetNumDroppedRecords", api.getNumDroppedRecords, missing);
    find(library, "cuptiActivityPushExternalCorrelationId", api.pushExternalId, missing);
    find(library, "cuptiActivityPopExternalCorrelationId", api.popExternalId, missing);
    if (!missing.empty())
        return Error{ErrorKind::noDevice,
                     "kernel times cannot be measured: " + api.library + " has no function " + missing
                         + "; install the CUPTI of CUDA 13"};
    if (const CUptiResult result = api.getVersion(&api.version); result != CUPTI_SUCCESS)
        return cuptiError(api, result, "cuptiGetVersion");
    if (api.version < oldestVersion)
        return Error{ErrorKind::noDevice,
                     "kernel times cannot be measured: " + api.library + " is of " + versionText(api.version)
                         + "; install that of CUDA 12 or 13"};
    return api;
}

Error cuptiError(const CuptiApi& api, CUptiResult result, std::string_view call)
{
    const char* name = nullptr;
    if (!api.getResultString || api.getResultString(result, &name) != CUPTI_SUCCESS || !name)
        name = "an error without a name";
    std::string message = "kernel times cannot be measured: ";
    const std::string_view known = advice(result);
    message += known.empty() ? std::string(call) + " failed" : std::string(known);
    message += " (" + std::string(name) + ", code " + std::to_string(static_cast<int>(result)) + ", CUPTI "
        + versionText(api.version) + ")";
    return {ErrorKind::noDevice, std::move(message)};
}

} // namespace headroom::cupti
