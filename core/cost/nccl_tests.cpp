// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/nccl_tests.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <sstream>

namespace headroom {
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
    return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
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
    if (!us || !algorithm || !bus || *us <= 0)
        return std::nullopt;
    return Row{*number(cells[0]), *us, *algorithm > 0 ? *bus / *algorithm : 0};
}

/// "#  Rank  0 Group  0 Pid     78 on host device  0 [0x07] NVIDIA A100-SXM4-80GB": the host.
std::string hostIn(const std::string& line)
{
    const auto on = line.find(" on ");
    const auto device = line.find(" device ");
    if (line.find("Rank") == std::string::npos || on == std::string::npos || device == std::string::npos)
        return {};
    const std::string host = line.substr(on + 4, device - on - 4);
    return host.substr(host.find_first_not_of(' '));
}

CollectiveKind kindOf(std::string_view text, const std::vector<Row>& rows, int ranks)
{
    for (const auto& [program, kind] : programs)
        // reduce_perf is the end of all_reduce_perf, which comes first.
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
        return badInput(file + " does not say which ranks it ran on: expected nccl-tests' lines `# Rank 0 … device 0`");
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
