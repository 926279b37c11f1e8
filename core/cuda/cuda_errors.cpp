// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cuda/cuda_errors.h"

#include <string>
#include <string_view>

namespace headroom {
namespace {

std::string_view adviceOn(cudaError_t code)
{
    switch (code) {
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
        return "NVIDIA's driver is missing or older than this CUDA; install or update the driver (nvidia-smi shows the "
               "version), or record on the simulated GPU with --device sim";
    case cudaErrorNoDevice:
        return "the driver finds no GPU; check that nvidia-smi lists a GPU, that CUDA_VISIBLE_DEVICES does not hide "
               "the GPU and that this user may open /dev/nvidia0, or record on the simulated GPU with --device sim";
    case cudaErrorDevicesUnavailable:
        return "another program uses the GPU exclusively (compute mode); end that program or ask for another GPU";
    case cudaErrorSystemNotReady:
        return "the GPUs are not ready: start NVIDIA's fabric manager (systemctl start nvidia-fabricmanager)";
    case cudaErrorSystemDriverMismatch:
        return "parts of NVIDIA's driver have different versions: restart the machine to complete the driver's update";
    case cudaErrorCompatNotSupportedOnDevice:
        return "CUDA's forward compatibility does not support this GPU: install a driver of this CUDA's version";
    case cudaErrorMpsConnectionFailed:
        return "the server of MPS does not answer: start the server, or unset CUDA_MPS_PIPE_DIRECTORY";
    case cudaErrorNotPermitted:
    case cudaErrorOperatingSystem:
        return "the system does not let this process use the GPU: in a container, pass the GPU in (--gpus all)";
    case cudaErrorMemoryAllocation:
        return "the GPU has no memory left for CUDA's context: end other programs on the GPU (listed by nvidia-smi)";
    case cudaErrorECCUncorrectable:
        return "the GPU's memory is defective (an uncorrectable ECC error): reset or replace the GPU";
    default:
        return {};
    }
}

} // namespace

Error cudaFailure(cudaError_t code)
{
    const std::string_view known = adviceOn(code);
    std::string message = "no GPU can be used: ";
    message += known.empty() ? std::string(cudaGetErrorString(code)) : std::string(known);
    message += " (" + std::string(cudaGetErrorName(code)) + ", code " + std::to_string(static_cast<int>(code)) + ")";
    return {ErrorKind::noDevice, std::move(message)};
}

} // namespace headroom
