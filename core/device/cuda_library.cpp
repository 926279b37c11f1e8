// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/real_device.h"

#include <dlfcn.h>
#include <filesystem>
#include <link.h>

namespace headroom {
namespace {

namespace fs = std::filesystem;

/// The library that core/cuda builds, and its one exported function. It is a separate library so that programs also
/// start on machines without CUDA.
constexpr const char* cudaLibraryName = "libheadroom_cuda.so";
constexpr const char* openCudaDeviceName = "headroom_open_cuda_device";

/// Opens GPU `index`. Returns a new device that the caller owns, or null with `error` set.
using OpenCudaDevice = RealDevice*(int index, Error* error) noexcept;

/// The folder of the program or library that holds this code.
fs::path ownFolder()
{
    static const char here = 0;
    Dl_info info{};
    link_map* map = nullptr;
    std::error_code ignored;
    if (dladdr1(&here, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0 && map && map->l_name
        && *map->l_name != 0)
        return fs::absolute(map->l_name, ignored).parent_path();
    return fs::read_symlink("/proc/self/exe", ignored).parent_path(); // the program itself has no name there
}

} // namespace

Result<std::unique_ptr<RealDevice>> openCuda(int index)
{
    const fs::path folder = ownFolder();
    // Python's package has it beside its own library, an installed program in the folder lib beside bin.
    std::string complaint;
    for (const fs::path& file : {folder / cudaLibraryName, folder / ".." / "lib" / cudaLibraryName}) {
        std::error_code ignored;
        if (!fs::exists(file, ignored))
            continue;
        // It stays loaded, since torch's allocator keeps one of its functions.
        void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
        const auto open = library ? reinterpret_cast<OpenCudaDevice*>(dlsym(library, openCudaDeviceName)) : nullptr;
        if (!open) {
            complaint = dlerror();
            continue;
        }
        Error error;
        std::unique_ptr<RealDevice> device(open(index, &error));
        if (!device)
            return error;
        return device;
    }
    if (!complaint.empty())
        return Error{ErrorKind::noDevice,
                     "no GPU can be used: Headroom's library for CUDA cannot be loaded (" + complaint
                         + "); install the CUDA build of torch with the libraries that it needs"};
    return Error{ErrorKind::noDevice,
                 "no GPU can be used: Headroom was built without CUDA; build it against the CUDA build of torch, "
                 "whose wheels bring the headers of CUDA 13 and CUPTI"};
}

} // namespace headroom
