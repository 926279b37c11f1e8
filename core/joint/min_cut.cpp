// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/min_cut.h"

#include "core/joint/op_obstacles.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

#include <algorithm>
#include <array>
#include <queue>
#include <tuple>

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

namespace {

constexpr std::uint32_t farthestWeighed = 100; ///< largest distance that raises a weight
constexpr std::uint32_t longestChain = 100; ///< number of ops
constexpr Bytes weightUnit = 512; ///< the allocator's block: weights stay small enough to add

/// 1.1 to the power of the distance: a value nearer to backward is cheaper to hold.
const std::array<double, farthestWeighed + 1>& distanceFactors()
{
    static const std::array<double, farthestWeighed + 1> factors = [] {
        std::array<double, farthestWeighed + 1> powers{1};
        for (std::size_t i = 1; i < powers.size(); ++i)
            powers[i] = powers[i - 1] * 1.1;
        return powers;
    }();
    return factors;
}

} // namespace

MinCutProblem::MinCutProblem(const JointGraph& graph)
    : graph_(graph)
    , facts_(graph.nodes.size())
    , distance_(graph.nodes.size(), unreachable)
    , fusedByBackward_(graph.values.size(), true)
    , leadsToBackward_(graph.values.size(), false)
{
    const StepTrace& trace = *graph.trace;
    for (std::size_t i = 0; i < facts_.size(); ++i) {
        const JointGraph::Node& node = graph.nodes[i];
        Facts& facts = facts_[i];
        facts = {true, true, node.flops > 0, node.random, false, node.ops.back().value};
        for (const OpId op : node.ops) {
            const OpKind kind = opKind(trace.opName(op));
            facts.recomputable = facts.recomputable && kind.recomputable;
            facts.fusible = facts.fusible && kind.fusible;
            facts.computeIntensive = facts.computeIntensive || kind.computeIntensive;
            facts.random = facts.random || kind.random;
            facts.concatenation = facts.concatenation || kind.concatenation;
        }
    }
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
        const bool producer = fusibleFrom(ValueId(static_cast<std::uint32_t>(i)));
        for (const OpId op : graph.backwardReaders[i]) {
            const OpKind kind = opKind(trace.opName(op));
            fusedByBackward_[i] = fusedByBackward_[i] && (kind.concatenation || (producer && kind.fusible));
        }
    }
    for (std::size_t i = facts_.size(); i-- > 0;) {
        for (const ValueId value : graph.nodes[i].makes) {
            const std::uint32_t distance = distanceOf(value);
            leadsToBackward_[value.value] = distance < unreachable;
            const std::uint32_t ofNode = graph.nodes[i].makes.size() > 1 ? distance + 1 : distance;
            distance_[i] = std::min({distance_[i], ofNode, unreachable});
        }
    }
}

/// A result of an op with several results can always be fused: the access is a getitem, not a kernel.
bool MinCutProblem::fusibleFrom(ValueId value) const
{
    const NodeId node = graph_[value].node;
    return node.valid() && (graph_[node].makes.size() > 1 || facts_[node.value].fusible);
}

bool MinCutProblem::fusible(ValueId from, NodeId to) const
{
    return facts_[to.value].concatenation || (fusibleFrom(from) && facts_[to.value].fusible);
}

bool MinCutProblem::materialized(ValueId value) const
{
    return !fusedByBackward_[value.value]
        || std::ranges::any_of(graph_.readers[value.value], [&](NodeId node) { return !fusible(value, node); });
}

bool MinCutProblem::materializedInBackward(NodeId node) const
{
    return std::ranges::any_of(graph_[node].makes, [&](ValueId value) { return !fusedByBackward_[value.value]; });
}

/// Whether the result takes less than a quarter of the bytes that the node reads, as of sums and norms.
bool MinCutProblem::reduces(NodeId node) const
{
    const auto& requested = graph_.trace->storages.requested;
    Bytes read = 0;
    for (const ValueId value : graph_[node].reads)
        read += requested[graph_[value].storage];
    Bytes made = 0;
    for (const ValueId value : graph_[node].makes)
        made += requested[graph_[value].storage];
    return made < read / 4;
}

std::uint32_t MinCutProblem::distanceOf(ValueId value) const
{
    if (graph_[value].needed || !graph_.backwardReaders[value.value].empty())
        return 1;
    std::uint32_t distance = unreachable;
    for (const NodeId reader : graph_.readers[value.value])
        distance = std::min(distance, distance_[reader.value] + 1);
    return std::min(distance, unreachable);
}

std::int64_t MinCutProblem::weight(ValueId value) const
{
    const std::uint32_t distance = std::clamp<std::uint32_t>(distanceOf(value), 1, farthestWeighed);
    const Bytes blocks = graph_[value].bytes / weightUnit;
    const double weighed = static_cast<double>(blocks) * distanceFactors()[distance];
    return static_cast<std::int64_t>(weighed) * (materialized(value) ? 1 : 2);
}

bool MinCutProblem::mustBan(NodeId node, const MinCutRules& rules) const
{
    const Facts& facts = facts_[node.value];
    if (rules.onlyKnownCheap ? !facts.recomputable || facts.computeIntensive || facts.random
                             : facts.random || facts.computeIntensive)
        return true;
    return (rules.materializedInBackward && materializedInBackward(node)) || reduces(node);
}

/// Collects the nodes that must not be recomputed.
class MinCutProblem::Bans
{
public:
    Bans(const MinCutProblem& problem, const std::vector<bool>& allowed)
        : problem_(problem)
        , graph_(problem.graph_)
        , allowed_(allowed)
        , banned_(graph_.nodes.size(), false)
    {
    }

    std::vector<bool> find(const MinCutRules& rules)
    {
        for (std::uint32_t i = 0; i < banned_.size(); ++i)
            if (graph_.nodes[i].repeat == Repeat::once)
                banned_[i] = true;
            else if (problem_.mustBan(NodeId(i), rules))
                ban(NodeId(i));
        if (rules.usedFarApart)
            for (std::uint32_t i = 0; i < graph_.values.size(); ++i)
                if (graph_.values[i].node.valid())
                    banFarReaders(ValueId(i));
        if (rules.longFusibleChains)
            cutChains();
        return std::move(banned_);
    }

private:
    std::uint32_t order(NodeId node) const { return problem_.facts_[node.value].order; }

    void ban(NodeId node)
    {
        if (allowed_.empty() || !allowed_[node.value])
            banned_[node.value] = true;
    }

    template <class Visit>
    void forEachReader(NodeId node, Visit visit) const
    {
        for (const ValueId value : graph_[node].makes)
            for (const NodeId reader : graph_.readers[value.value])
                visit(reader, problem_.fusible(value, reader));
    }

    /// The order of the first node after `readers` that no node before can be fused with, at most `last`.
    std::uint32_t firstUnfusible(const std::vector<NodeId>& readers, std::uint32_t last) const
    {
        using Entry = std::tuple<std::uint32_t, NodeId, bool>;
        std::priority_queue<Entry, std::vector<Entry>, std::greater<>> next;
        for (const NodeId reader : readers)
            next.emplace(order(reader), reader, true);
        Entry before{0, NodeId(), false};
        while (!next.empty()) {
            const Entry entry = next.top();
            next.pop();
            if (entry == before)
                continue;
            before = entry;
            const auto [at, node, fused] = entry;
            if (!fused)
                return at;
            forEachReader(node, [&](NodeId reader, bool fusible) {
                if (order(reader) <= last)
                    next.emplace(order(reader), reader, fusible);
            });
        }
        return last;
    }

    void banFarReaders(ValueId value)
    {
        const std::vector<NodeId>& readers = graph_.readers[value.value];
        if (readers.size() < 2)
            return;
        const std::uint32_t first = firstUnfusible(readers, order(readers.back()));
        for (const NodeId reader : readers)
            if (order(reader) > first && problem_.fusible(value, reader))
                ban(reader);
    }

    void cutChains()
    {
        using Entry = std::pair<std::uint32_t, NodeId>;
        std::vector<bool> visited(graph_.nodes.size(), false);
        for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
            std::priority_queue<Entry, std::vector<Entry>, std::greater<>> next;
            const std::uint32_t start = order(NodeId(i));
            next.emplace(start, NodeId(i));
            while (!next.empty()) {
                const NodeId node = next.top().second;
                next.pop();
                if (visited[node.value])
                    continue;
                visited[node.value] = true;
                if (order(node) > start + longestChain && next.empty()) {
                    ban(node);
                    break;
                }
                forEachReader(node, [&](NodeId reader, bool fusible) {
                    if (fusible && !banned_[reader.value])
                        next.emplace(order(reader), reader);
                });
            }
        }
    }

    const MinCutProblem& problem_;
    const JointGraph& graph_;
    const std::vector<bool>& allowed_;
    std::vector<bool> banned_;
};

MinCut MinCutProblem::solve(const MinCutRules& rules, const std::vector<bool>& allowed) const
{
    MinCut cut;
    cut.banned = Bans(*this, allowed).find(rules);
    // A node is a single vertex; a value is two vertices with an edge of the value's weight. Values that take no memory
    // and nodes that do not lead to backward are left out.
    const auto counts = [&](ValueId value) { return graph_.takesMemory(value) && leadsToBackward_[value.value]; };
    const std::size_t nodes = graph_.nodes.size();
    const std::size_t values = graph_.values.size();
    const auto wayIn = [nodes](ValueId value) { return nodes + 2 * std::size_t{value.value}; };
    MaxFlow flow(nodes + 2 * values);
    for (std::uint32_t i = 0; i < nodes; ++i) {
        bool leads = false;
        for (const ValueId value : graph_.nodes[i].makes) {
            if (!counts(value))
                continue;
            leads = true;
            const std::size_t in = wayIn(value);
            flow.addEdge(i, in, MaxFlow::unlimited);
            flow.addEdge(in, in + 1, weight(value));
            for (const NodeId reader : graph_.readers[value.value])
                if (distance_[reader.value] < unreachable)
                    flow.addEdge(in + 1, reader.value, MaxFlow::unlimited);
            if (graph_[value].needed)
                flow.addEdge(in + 1, flow.sink(), MaxFlow::unlimited);
        }
        if (leads && cut.banned[i])
            flow.addEdge(flow.source(), i, MaxFlow::unlimited);
    }
    const std::vector<bool> backward = flow.sinkSide();
    for (std::uint32_t i = 0; i < values; ++i) {
        const ValueId value(i);
        if (counts(value) && !backward[wayIn(value)] && backward[wayIn(value) + 1])
            cut.saved.push_back(value);
    }
    return cut;
}

} // namespace headroom
