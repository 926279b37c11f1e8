// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/checksum.h"

#include <array>
#include <bit>
#include <cstring>

namespace headroom {

namespace {

constexpr std::uint64_t prime1 = 0x9E3779B185EBCA87;
constexpr std::uint64_t prime2 = 0xC2B2AE3D27D4EB4F;
constexpr std::uint64_t prime3 = 0x165667B19E3779F9;
constexpr std::uint64_t prime4 = 0x85EBCA77C2B2AE63;
constexpr std::uint64_t prime5 = 0x27D4EB2F165667C5;

template <class Word>
std::uint64_t read(const std::byte* bytes) noexcept
{
    static_assert(std::endian::native == std::endian::little, "XXH64 reads little-endian words");
    Word word;
    std::memcpy(&word, bytes, sizeof(word));
    return word;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t word) noexcept
{
    return std::rotl(lane + word * prime2, 31) * prime1;
}

} // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) noexcept
{
    const std::byte* at = bytes.data();
    std::size_t left = bytes.size();
    std::uint64_t hash = prime5;
    if (left >= 32) {
        std::array<std::uint64_t, 4> lanes{prime1 + prime2, prime2, 0, 0 - prime1};
        for (; left >= 32; left -= 32, at += 32)
            for (std::size_t lane = 0; lane < 4; ++lane)
                lanes[lane] = round(lanes[lane], read<std::uint64_t>(at + 8 * lane));
        hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
        for (const std::uint64_t lane : lanes)
            hash = (hash ^ round(0, lane)) * prime1 + prime4;
    }
    hash += bytes.size();

    for (; left >= 8; left -= 8, at += 8)
        hash = std::rotl(hash ^ round(0, read<std::uint64_t>(at)), 27) * prime1 + prime4;
    for (; left >= 4; left -= 4, at += 4)
        hash = std::rotl(hash ^ read<std::uint32_t>(at) * prime1, 23) * prime2 + prime3;
    for (; left > 0; --left, ++at)
        hash = std::rotl(hash ^ read<std::uint8_t>(at) * prime5, 11) * prime1;

    hash = (hash ^ (hash >> 33)) * prime2;
    hash = (hash ^ (hash >> 29)) * prime3;
    return hash ^ (hash >> 32);
}

} // namespace headroom
