// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/topology.h"

#include "core/base/json_reader.h"
#include "core/base/json_text.h"
#include "core/cost/resource_tables.h"

#include <algorithm>
#include <filesystem>

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
            json::wrong(object, key, "is no link: expected one of \"links\" of this file or of the program");
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

/// The topologies of a file. Its own links replace those of the program by name.
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
    return badInput("unknown topology '" + nameOrFile + "': expected one of " + names
                    + "or a file, as torch-headroom calibrate writes it");
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

} // namespace headroom
