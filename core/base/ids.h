// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

namespace headroom {

/// The row number of an op, a storage, … in the columns of a StepTrace. Each kind of row has its own index type, so
/// that an op is never looked up as a storage. Columns of a mapped file are arrays of Index: Index has four bytes and
/// is trivially copyable.
template <class Tag>
struct Index
{
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    std::uint32_t value = none;

    constexpr Index() = default;
    constexpr explicit Index(std::uint32_t position) noexcept
        : value(position)
    {
    }
    constexpr bool valid() const noexcept { return value != none; }
    constexpr explicit operator bool() const noexcept { return valid(); }
    constexpr auto operator<=>(const Index&) const noexcept = default;
    friend std::size_t hash_value(Index index) noexcept { return index.value; } ///< for boost::hash
};

using StringId = Index<struct StringTag>;
using ModuleId = Index<struct ModuleTag>;
using CallId = Index<struct CallTag>; ///< a call of a module's forward
using OpId = Index<struct OpTag>;
using StorageId = Index<struct StorageTag>;
using SignatureId = Index<struct SignatureTag>; ///< shapes and types of an op's arguments and results
using GroupId = Index<struct GroupTag>; ///< a process group of torch.distributed
using PackId = Index<struct PackTag>; ///< a tensor saved for backward by autograd
using FrameId = Index<struct FrameTag>; ///< a frame of source code, with the frames that called it
using EventIndex = Index<struct EventTag>;

} // namespace headroom

template <class Tag>
struct std::hash<headroom::Index<Tag>>
{
    std::size_t operator()(headroom::Index<Tag> index) const noexcept
    {
        return std::hash<std::uint32_t>{}(index.value);
    }
};
