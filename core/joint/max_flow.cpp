// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/max_flow.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

namespace headroom {

struct MaxFlow::Network
{
    using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;

    struct Vertex
    {
        boost::default_color_type color = boost::white_color;
        std::int64_t distance = 0;
        Traits::edge_descriptor predecessor;
    };
    struct Edge
    {
        std::int64_t capacity = 0;
        std::int64_t residual = 0;
        Traits::edge_descriptor reverse;
    };
    using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Vertex, Edge>;
    explicit Network(std::size_t vertices)
        : graph(vertices)
    {
    }
    Graph graph;
};

MaxFlow::MaxFlow(std::size_t vertices)
    : vertices_(vertices)
    , network_(std::make_unique<Network>(vertices + 2))
{
}

MaxFlow::~MaxFlow() = default;

void MaxFlow::addEdge(std::size_t from, std::size_t to, std::int64_t capacity)
{
    Network::Graph& graph = network_->graph;
    const auto there = boost::add_edge(from, to, {capacity, 0, {}}, graph).first;
    const auto back = boost::add_edge(to, from, {0, 0, {}}, graph).first;
    graph[there].reverse = back;
    graph[back].reverse = there;
}

std::vector<bool> MaxFlow::sinkSide()
{
    using Vertex = Network::Vertex;
    using Edge = Network::Edge;
    Network::Graph& graph = network_->graph;
    boost::boykov_kolmogorov_max_flow(graph, boost::get(&Edge::capacity, graph), boost::get(&Edge::residual, graph),
                                      boost::get(&Edge::reverse, graph), boost::get(&Vertex::predecessor, graph),
                                      boost::get(&Vertex::color, graph), boost::get(&Vertex::distance, graph),
                                      boost::get(boost::vertex_index, graph), source(), sink());
    std::vector<bool> reaches(vertices_ + 2, false);
    std::vector<std::size_t> open{sink()};
    reaches[sink()] = true;
    while (!open.empty()) {
        const std::size_t vertex = open.back();
        open.pop_back();
        for (const auto edge : boost::make_iterator_range(boost::out_edges(vertex, graph))) {
            const std::size_t before = boost::target(edge, graph);
            if (reaches[before] || graph[graph[edge].reverse].residual == 0)
                continue;
            reaches[before] = true;
            open.push_back(before);
        }
    }
    return reaches;
}

} // namespace headroom
