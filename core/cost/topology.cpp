// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/collective_model.h"

#include "core/base/json_reader.h"
#include "core/base/json_text.h"
#include "core/cost/resource_tables.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>

namespace headroom {
namespace {

using json::Json;
using Links = std::map<std::string, Link>;

Link::Curve curveIn(const Json& list)
{
    Link::Curve curve;
    for (const auto& [bytes, rate] :
         json::listOf(json::pairOf(json::notNegative, json::notNegative, "[bytes, GB/s]"))(list)) {
        if (rate <= 0 || bytes <= 0 || (!curve.empty() && curve.back().bytes >= bytes))
            json::wrong(list, "has a point that is out of order or 0: expected [bytes, GB/s] in rising order of bytes");
        curve.push_back({bytes, rate});
    }
    if (curve.empty())
        json::expected(list, "at least one [bytes, GB/s]");
    return curve;
}

Link linkIn(const Json& object)
{
    Link link;
    link.source = json::atOr(object, "source", json::string, std::string());
    link.channels = json::atOr(
        object, "channels",
        [](const Json& value) { return json::integerFrom(value, 1, 64, "NCCL's channels, 1 to 64"); }, link.channels);
    const auto hops = json::at(object, "hop_us", json::listOf(json::notNegative));
    if (hops.size() != link.hopUs.size())
        json::expected(object["hop_us"], "microseconds of a step by protocol: [LL, LL128, Simple]");
    std::ranges::copy(hops, link.hopUs.begin());
    link.bandwidth = json::at(object, "bandwidth", curveIn);
    link.switchUs = json::atOr(object, "switch_us", json::notNegative, 0.0);
    link.switchBandwidth = json::atOr(object, "switch_bandwidth", curveIn, Link::Curve());
    return link;
}

Links linksIn(const Json& document)
{
    Links links;
    for (const auto& [name, link] : json::atOr(document, "links", json::mapOf(linkIn), std::map<std::string, Link>())) {
        links[name] = link;
        links[name].name = name;
    }
    return links;
}

Topology topologyIn(const Json& object, const Links& links)
{
    const auto linkNamed = [&](const char* key) {
        const auto found = links.find(json::at(object, key, json::string));
        if (found == links.end())
            json::wrong(object, key, "is no link: expected a link from \"links\" of this file or of the program");
        return found->second;
    };
    Topology topology;
    topology.name = json::at(object, "name", json::string);
    topology.title = json::atOr(object, "title", json::string, topology.name);
    topology.cards = json::atOr(object, "cards", json::listOf(json::string), std::vector<std::string>());
    topology.ranksPerNode = json::at(object, "ranks_per_node", [](const Json& value) {
        return json::integerFrom(value, 1, 1 << 16, "how many GPUs a node has, 1 or more");
    });
    topology.computeShare = json::atOr(object, "compute_share", json::notNegative, 1.0);
    if (topology.computeShare <= 0 || topology.computeShare > 1)
        json::wrong(object, "compute_share", "is no share: expected more than 0, at most 1");
    topology.node = linkNamed("node");
    topology.network = linkNamed("network");
    return topology;
}

/// The topologies of a file. The file's links replace the program's links by name.
std::vector<Topology> topologiesIn(const Json& document, const Links& known)
{
    Links links = linksIn(document);
    links.insert(known.begin(), known.end());
    auto list
        = json::at(document, "topologies", json::listOf([&](const Json& object) { return topologyIn(object, links); }));
    if (list.empty())
        json::wrong(document, "topologies", "is empty: expected a topology");
    return list;
}

const Links& ownLinks()
{
    static const Links links = json::read(topologiesJson(), "topologies.json", linksIn).value();
    return links;
}

nlohmann::ordered_json toJson(const Link::Curve& curve)
{
    auto list = nlohmann::ordered_json::array();
    for (const Link::Point& point : curve)
        list.push_back({point.bytes, point.gigabytesPerSecond});
    return list;
}

nlohmann::ordered_json toJson(const Link& link)
{
    nlohmann::ordered_json object{{"source", link.source},
                                  {"channels", link.channels},
                                  {"hop_us", link.hopUs},
                                  {"bandwidth", toJson(link.bandwidth)}};
    if (!link.switchBandwidth.empty()) {
        object["switch_us"] = link.switchUs;
        object["switch_bandwidth"] = toJson(link.switchBandwidth);
    }
    return object;
}

} // namespace

std::span<const Topology> topologies()
{
    static const auto list = json::read(topologiesJson(), "topologies.json", [](const Json& document) {
                                 return topologiesIn(document, ownLinks());
                             }).value();
    return list;
}

const Topology& topologyOf(std::string_view gpu)
{
    const auto list = topologies();
    const auto found = std::ranges::find_if(
        list, [&](const Topology& t) { return std::ranges::find(t.cards, gpu) != t.cards.end(); });
    return found == list.end() ? list.front() : *found;
}

Result<Topology> findTopology(const std::string& nameOrFile)
{
    const auto list = topologies();
    const auto found = std::ranges::find(list, nameOrFile, &Topology::name);
    if (found != list.end())
        return *found;
    std::error_code ignored;
    if (std::filesystem::exists(nameOrFile, ignored))
        return json::readFile(nameOrFile,
                              [](const Json& document) { return topologiesIn(document, ownLinks()).front(); });
    std::string names;
    for (const Topology& topology : list)
        names += topology.name + ", ";
    return badInput("unknown topology '" + nameOrFile + "': expected " + names
                    + "or a file of torch-headroom calibrate");
}

std::string topologyToJson(const Topology& topology)
{
    nlohmann::ordered_json document;
    document["links"]
        = {{topology.node.name, toJson(topology.node)}, {topology.network.name, toJson(topology.network)}};
    document["topologies"] = nlohmann::ordered_json::array({{{"name", topology.name},
                                                             {"title", topology.title},
                                                             {"cards", topology.cards},
                                                             {"ranks_per_node", topology.ranksPerNode},
                                                             {"compute_share", topology.computeShare},
                                                             {"node", topology.node.name},
                                                             {"network", topology.network.name}}});
    return jsonText(document, 1) + '\n';
}

namespace {

constexpr auto programs = std::to_array<std::pair<std::string_view, CollectiveKind>>({
    {"all_reduce_perf", CollectiveKind::allReduce},
    {"all_gather_perf", CollectiveKind::allGather},
    {"reduce_scatter_perf", CollectiveKind::reduceScatter},
    {"alltoall_perf", CollectiveKind::allToAll},
    {"broadcast_perf", CollectiveKind::broadcast},
    {"reduce_perf", CollectiveKind::reduce},
    {"gather_perf", CollectiveKind::gather},
    {"scatter_perf", CollectiveKind::scatter},
    {"sendrecv_perf", CollectiveKind::send},
});

struct Row
{
    double bytes = 0;
    double us = 0;
    double ratio = 0; ///< bus to algorithm bandwidth
};

std::optional<double> number(const std::string& text)
{
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool isWhole = error == std::errc() && end == text.data() + text.size();
    return isWhole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

/// "8388608 2097152 float sum -1 133.5 62.82 109.93 0 …"; older programs print no root.
std::optional<Row> rowIn(const std::string& line)
{
    std::istringstream words(line);
    std::vector<std::string> cells;
    for (std::string cell; words >> cell;)
        cells.push_back(cell);
    if (cells.size() < 7 || !number(cells[0]) || !number(cells[1]) || number(cells[2]))
        return std::nullopt;
    const std::size_t first = cells[4].find('.') == std::string::npos ? 5 : 4;
    if (cells.size() < first + 3)
        return std::nullopt;
    const auto us = number(cells[first]);
    const auto algorithm = number(cells[first + 1]);
    const auto bus = number(cells[first + 2]);
    if (!us || !algorithm || !bus || *us <= 0 || *number(cells[0]) <= 0)
        return std::nullopt;
    return Row{*number(cells[0]), *us, *algorithm > 0 ? *bus / *algorithm : 0};
}

/// "#  Rank  0 Group  0 Pid     78 on host device  0 [0x07] NVIDIA A100-SXM4-80GB": the host.
std::string hostIn(const std::string& line)
{
    const auto on = line.find(" on ");
    const auto device = line.find(" device ");
    if (line.find("Rank") == std::string::npos || on == std::string::npos || device == std::string::npos
        || device < on + 4)
        return {};
    const std::string host = line.substr(on + 4, device - on - 4);
    return host.substr(std::min(host.find_first_not_of(' '), host.size()));
}

CollectiveKind kindOf(std::string_view text, const std::vector<Row>& rows, int ranks)
{
    for (const auto& [program, kind] : programs)
        // reduce_perf is the end of all_reduce_perf; all_reduce_perf comes first.
        if (text.find(program) != std::string_view::npos)
            return kind;
    const double ratio = rows.back().ratio;
    const double others = (ranks - 1.0) / ranks;
    if (std::abs(ratio - 2 * others) < 0.05)
        return CollectiveKind::allReduce;
    return std::abs(ratio - others) < 0.05 ? CollectiveKind::allGather : CollectiveKind::broadcast;
}

} // namespace

bool isNcclTests(std::string_view text)
{
    return text.find("busbw") != std::string_view::npos && text.find("algbw") != std::string_view::npos;
}

Result<std::vector<CollectiveSample>> readNcclTests(std::string_view text, const std::string& file)
{
    std::map<std::string, int> hosts;
    std::vector<Row> rows;
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) {
        if (const std::string host = hostIn(line); !host.empty())
            ++hosts[host];
        else if (const auto row = rowIn(line))
            rows.push_back(*row);
    }
    if (rows.empty())
        return badInput(file + " has no row of nccl-tests: expected lines of size, count, type, time, algbw and busbw");
    if (hosts.empty())
        return badInput(file + " names no ranks: expected nccl-tests' lines `# Rank 0 … device 0`");
    GroupShape group;
    group.ranks = 0;
    group.nodes = static_cast<int>(hosts.size());
    for (const auto& [host, count] : hosts) {
        group.ranks += count;
        group.perNode = std::max(group.perNode, count);
    }
    const CollectiveKind kind = kindOf(text, rows, group.ranks);
    std::vector<CollectiveSample> samples;
    for (const Row& row : rows)
        samples.push_back({kind, row.bytes, group, row.us});
    return samples;
}

} // namespace headroom
