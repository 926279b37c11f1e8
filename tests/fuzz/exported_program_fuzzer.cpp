// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/exported/exported_program.h"

#include <cstddef>
#include <cstdint>
#include <span>

using namespace headroom;

/// Any bytes are a .pt2 file or an error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    auto archive = ZipArchive::read(std::as_bytes(std::span(data, size)), "model.pt2", nullptr);
    if (!archive)
        return 0;
    const auto program = exported::readExportedProgram(std::move(*archive));
    if (program)
        (void)program->weightless();
    return 0;
}
