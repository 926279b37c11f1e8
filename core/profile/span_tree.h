// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/profile/profile.h"
#include "core/profile/profile_windows.h"

#include <span>
#include <vector>

namespace headroom {

/// The spans that began in a window, as a tree with the kernels that each span launched itself.
class SpanTree
{
public:
    static constexpr std::uint32_t none = UINT32_MAX;

    struct Node
    {
        const Profile::Span* span = nullptr;
        std::uint32_t parent = none; ///< an earlier node
        std::int64_t kernels = 0; ///< launched by the span itself, not by spans inside it
        Profile::Nanoseconds kernelTime = 0;
        Profile::Text kernel = 0; ///< name of the first kernel
        Profile::Nanoseconds inside = 0; ///< CPU time of its children
    };

    SpanTree(const Profile& profile, const ProfileWindow& window);

    /// Nodes by thread; outer spans come before inner ones.
    std::span<const Node> nodes() const { return nodes_; }
    /// Kernels launched in the window.
    std::span<const Profile::Kernel* const> kernels() const { return kernels_; }
    Profile::Nanoseconds withoutSpan() const noexcept { return withoutSpan_; } ///< time of kernels without a node

private:
    void nest(const Profile& profile, const ProfileWindow& window);
    void attribute(const Profile& profile, const ProfileWindow& window);
    std::uint32_t innermost(std::uint32_t thread, Profile::Nanoseconds at) const;
    std::uint32_t withExternalId(std::int64_t id) const;

    std::vector<Node> nodes_;
    std::vector<std::pair<std::int64_t, std::uint32_t>> externalIds_; ///< sorted
    std::vector<const Profile::Kernel*> kernels_;
    Profile::Nanoseconds withoutSpan_ = 0;
};

} // namespace headroom
