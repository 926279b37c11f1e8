// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>

/// A GPU that is not there: what its runtime tells its CUPTI.
namespace standin {

struct Work
{
    enum class Kind : std::uint8_t { kernel, memcpy, memset };

    Kind kind = Kind::kernel;
    std::uint32_t stream = 0;
    std::uint64_t start = 0; ///< ns
    std::uint64_t end = 0;
    std::size_t bytes = 0;
    const char* name = "";
};

std::uint64_t now();
void product(void* stream, const char* name);

/// In stand_in_cupti.cpp: something was launched by this thread; the host waited for the device.
void launched(const Work& work);
void waited(std::uint64_t from, std::uint64_t to);

} // namespace standin
