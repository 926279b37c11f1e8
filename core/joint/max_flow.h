// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace headroom {

/// A directed network with a source and a sink, and its maximum flow (Boost, Boykov and Kolmogorov's algorithm).
class MaxFlow
{
public:
    static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max() / 4;

    explicit MaxFlow(std::size_t vertices); ///< numbered from 0; source and sink are added
    ~MaxFlow();
    MaxFlow(const MaxFlow&) = delete;
    MaxFlow& operator=(const MaxFlow&) = delete;

    std::size_t source() const noexcept { return vertices_; }
    std::size_t sink() const noexcept { return vertices_ + 1; }
    void addEdge(std::size_t from, std::size_t to, std::int64_t capacity);

    /// Returns, by vertex, whether it is on the sink's side of the minimum cut. Of cuts with equal capacity, the one
    /// nearest to the sink is used, as in networkx.
    std::vector<bool> sinkSide();

private:
    struct Network;
    std::size_t vertices_;
    std::unique_ptr<Network> network_;
};

} // namespace headroom
