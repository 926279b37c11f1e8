// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/torchscript_file.h"

#include <cstddef>
#include <cstdint>
#include <span>

using namespace headroom;

/// Any bytes are a TorchScript file that libtorch loads or refuses, or an error before that; any bytes are a pickle or
/// an error. libtorch itself is not instrumented: a crash of it is a finding all the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const auto bytes = std::as_bytes(std::span(data, size));
    (void)Pickle::read(bytes, "pickle");
    (void)checkTorchScriptCode({reinterpret_cast<const char*>(data), size}, "code");
    const auto file = TorchScriptFile::read(bytes, "model.pt", nullptr);
    if (!file)
        return 0;
    for (const bool weights : {true, false})
        (void)file->load(weights);
    return 0;
}
