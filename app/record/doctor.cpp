// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/record/doctor.h"

#include "app/record/confinement.h"
#include "core/base/bytes.h"
#include "core/base/json_text.h"

#include <nlohmann/json.hpp>
#include <torch/version.h>

#include <array>
#include <dlfcn.h>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace headroom {
namespace {

/// A GPU that the CUDA driver reports.
struct GpuFound
{
    std::string name;
    Bytes memory = 0;
    int computeCapability = 0; ///< 80, 90, …
};

/// The machine's software and GPUs for recording a step. Found at run time by dlopen: torch-headroom-record
/// runs, and simulates, on a machine without a GPU or such software.
struct MachineReport
{
    std::string torch; ///< version of the libtorch in use
    std::optional<int> cudaDriver; ///< highest CUDA version of the driver: 13000 is 13.0; nullopt: no libcuda.so.1
    std::optional<std::string> cupti; ///< name of the loaded library; nullopt: none
    std::vector<GpuFound> gpus;
    std::vector<std::string> confinement; ///< what confines the recorder of model files: "Landlock", "seccomp"
    std::vector<std::string> advice; ///< one sentence for each missing part: what to do about it
};

struct CloseLibrary
{
    void operator()(void* handle) const { dlclose(handle); }
};
using Library = std::unique_ptr<void, CloseLibrary>; ///< null: not found

Library openLibrary(const char* name)
{
    return Library(dlopen(name, RTLD_NOW | RTLD_LOCAL));
}

/// Returns the function `name`; null if the library has none.
template <class Function>
Function* functionOf(const Library& library, const char* name)
{
    return reinterpret_cast<Function*>(dlsym(library.get(), name));
}

// The functions of the driver's C interface (cuda.h) that are called here. Each returns 0 on success; a device is an
// int.
using CuInit = int(unsigned flags);
using CuDriverGetVersion = int(int* version);
using CuDeviceGetCount = int(int* count);
using CuDeviceGetName = int(char* name, int length, int device);
using CuDeviceTotalMem = int(std::size_t* bytes, int device);
using CuDeviceGetAttribute = int(int* value, int attribute, int device);
constexpr int computeCapabilityMajor = 75; // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int computeCapabilityMinor = 76;

std::vector<GpuFound> listGpus(const Library& driver)
{
    const auto init = functionOf<CuInit>(driver, "cuInit");
    const auto count = functionOf<CuDeviceGetCount>(driver, "cuDeviceGetCount");
    const auto name = functionOf<CuDeviceGetName>(driver, "cuDeviceGetName");
    const auto memory = functionOf<CuDeviceTotalMem>(driver, "cuDeviceTotalMem_v2");
    const auto attribute = functionOf<CuDeviceGetAttribute>(driver, "cuDeviceGetAttribute");
    std::vector<GpuFound> gpus;
    int found = 0;
    if (!init || !count || !name || !memory || !attribute || init(0) != 0 || count(&found) != 0)
        return gpus;
    for (int device = 0; device < found; ++device) {
        std::array<char, 256> text{};
        std::size_t bytes = 0;
        int major = 0;
        int minor = 0;
        if (name(text.data(), static_cast<int>(text.size()), device) != 0 || memory(&bytes, device) != 0
            || attribute(&major, computeCapabilityMajor, device) != 0
            || attribute(&minor, computeCapabilityMinor, device) != 0)
            continue;
        gpus.push_back({text.data(), static_cast<Bytes>(bytes), major * 10 + minor});
    }
    return gpus;
}

std::string cudaVersion(int number)
{
    return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

std::string confinementText(const std::vector<std::string>& names)
{
    std::string text;
    for (const std::string& name : names)
        text += (text.empty() ? "" : " and ") + name;
    return text.empty() ? "not there" : text;
}

void printReport(const MachineReport& report)
{
    std::cout << "torch " << report.torch << '\n';
    std::cout << "CUDA driver " << (report.cudaDriver ? "for CUDA " + cudaVersion(*report.cudaDriver) : "not there")
              << '\n';
    std::cout << "CUPTI " << report.cupti.value_or("not there") << '\n';
    std::cout << "Confinement " << confinementText(report.confinement) << '\n';
    for (const GpuFound& gpu : report.gpus)
        std::cout << "GPU " << gpu.name << ", " << formatBytes(gpu.memory) << ", compute capability "
                  << gpu.computeCapability / 10 << '.' << gpu.computeCapability % 10 << '\n';
    for (const std::string& advice : report.advice)
        std::cout << advice << '\n';
}

void printJson(const MachineReport& report)
{
    nlohmann::json gpus = nlohmann::json::array();
    for (const GpuFound& gpu : report.gpus)
        gpus.push_back(
            {{"name", gpu.name}, {"memory_bytes", gpu.memory}, {"compute_capability", gpu.computeCapability}});
    const nlohmann::json document{
        {"torch", report.torch},
        {"cuda_driver", report.cudaDriver ? nlohmann::json(cudaVersion(*report.cudaDriver)) : nlohmann::json()},
        {"cupti", report.cupti ? nlohmann::json(*report.cupti) : nlohmann::json()},
        {"confinement",
         report.confinement.empty() ? nlohmann::json() : nlohmann::json(confinementText(report.confinement))},
        {"gpus", gpus},
        {"advice", report.advice}};
    std::cout << jsonText(document, 2) << '\n';
}

MachineReport inspectMachine()
{
    MachineReport report;
    report.torch = TORCH_VERSION;
    if (const Library driver = openLibrary("libcuda.so.1")) {
        int version = 0;
        const auto getVersion = functionOf<CuDriverGetVersion>(driver, "cuDriverGetVersion");
        if (getVersion && getVersion(&version) == 0)
            report.cudaDriver = version;
        report.gpus = listGpus(driver);
    }
    // By the names that a CUDA toolkit, or the wheel nvidia-cuda-cupti beside torch, installs.
    for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}) {
        if (const Library cupti = openLibrary(name); cupti && functionOf<void>(cupti, "cuptiGetVersion")) {
            report.cupti = name;
            break;
        }
    }
    report.confinement = confinementHere();
    if (report.confinement.empty())
        report.advice.emplace_back("No confinement: this system has neither Landlock nor seccomp, so that a model file "
                                   "that attacks libtorch could write other files; record only files that you trust.");
    if (!report.cudaDriver)
        report.advice.emplace_back(
            "No CUDA driver: steps are simulated; to measure on a GPU, install NVIDIA's driver (libcuda.so.1).");
    else if (report.gpus.empty())
        report.advice.emplace_back("The CUDA driver lists no GPU: steps are simulated; check that nvidia-smi shows the "
                                   "card and that this user may open /dev/nvidia0.");
    if (!report.cupti)
        report.advice.emplace_back("No CUPTI: kernel times cannot be measured; install the CUDA build of torch or the "
                                   "CUDA toolkit (libcupti).");
    return report;
}

} // namespace

int runDoctor(bool json)
{
    const MachineReport report = inspectMachine();
    if (json)
        printJson(report);
    else
        printReport(report);
    return 0;
}

} // namespace headroom
