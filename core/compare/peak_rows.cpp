// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/compare/peak_rows.h"

#include "core/base/common_subsequence.h"

#include <functional>
#include <map>

namespace headroom {

namespace {

using LineNames = std::vector<std::string>; ///< by index in PeakSide::lines

/// Returns the lines that run ops or hold blocks, by function, in the order of the source.
std::map<std::string, std::vector<std::uint32_t>> linesByFunction(const PeakSide& side)
{
    std::vector<bool> used(side.lines.size(), false);
    for (const PeakHolding& holding : side.holdings)
        if (holding.line < used.size())
            used[holding.line] = true;
    std::map<std::string, std::vector<std::uint32_t>> functions;
    for (std::uint32_t i = 0; i < side.lines.size(); ++i)
        if (used[i] || !side.lines[i].ops.empty())
            functions[side.lines[i].function].push_back(i);
    for (auto& [function, lines] : functions)
        std::ranges::sort(lines, {}, [&](std::uint32_t line) { return side.lines[line].number; });
    return functions;
}

/// Names the lines of two versions of a script: paired lines have equal names. In a function with the same lines in
/// both, lines pair by number; otherwise by the ops that the lines run, in the same order.
class LinePairs
{
public:
    LinePairs(const PeakSide& a, const PeakSide& b)
        : a_(a)
        , b_(b)
        , namesA_(ownNames(a))
        , namesB_(ownNames(b))
    {
        const auto functionsB = linesByFunction(b);
        for (const auto& [function, lines] : linesByFunction(a))
            if (const auto found = functionsB.find(function); found != functionsB.end())
                pair(lines, found->second);
    }

    LineNames namesA() && { return std::move(namesA_); }
    LineNames namesB() && { return std::move(namesB_); }

private:
    using Lines = std::vector<std::uint32_t>;

    static LineNames ownNames(const PeakSide& side)
    {
        LineNames names;
        for (const AllocatingLine& line : side.lines)
            names.push_back(line.text);
        return names;
    }

    static std::vector<std::uint64_t> opsOf(const PeakSide& side, const Lines& lines)
    {
        std::vector<std::uint64_t> keys;
        for (const std::uint32_t line : lines) {
            std::string text;
            for (const std::string& op : side.lines[line].ops)
                text += op + '\n';
            keys.push_back(std::hash<std::string>()(text));
        }
        return keys;
    }

    void pair(const Lines& linesA, const Lines& linesB)
    {
        const auto numberA = [&](std::uint32_t line) { return a_.lines[line].number; };
        const auto numberB = [&](std::uint32_t line) { return b_.lines[line].number; };
        if (std::ranges::equal(linesA, linesB, {}, numberA, numberB))
            return;
        for (const std::uint32_t line : linesA)
            namesA_[line] += ", only in A";
        for (const auto& [i, j] : commonSubsequence(opsOf(a_, linesA), opsOf(b_, linesB))) {
            const std::uint32_t line = linesA[i];
            const std::uint32_t other = linesB[j];
            if (numberA(line) != numberB(other))
                namesB_[other] += ", line " + std::to_string(lastNumber(numberA(line))) + " in A";
            namesA_[line] = namesB_[other];
        }
    }

    /// Returns the line of the innermost frame: the library's, else the program's own.
    static std::uint64_t lastNumber(std::uint64_t number)
    {
        const std::uint64_t library = number & UINT32_MAX;
        return library > 0 ? library : number >> 32U;
    }

    const PeakSide& a_;
    const PeakSide& b_;
    LineNames namesA_;
    LineNames namesB_;
};

} // namespace

RowFinder::RowFinder(const PeakSide& a, const PeakSide& b, PeakKey key)
    : key_(key)
{
    if (key != PeakKey::line)
        return;
    LinePairs pairs(a, b);
    linesA_ = std::move(pairs).namesA();
    linesB_ = std::move(pairs).namesB();
}

PeakRowKey RowFinder::of(const PeakHolding& holding, const Names& lines) const
{
    if (key_ == PeakKey::module && holding.ofModule)
        return {false, holding.module};
    if (key_ == PeakKey::line && holding.line < lines.size())
        return {false, lines[holding.line]};
    return {true, std::string(categoryName(holding.category))};
}

std::vector<PeakRow> peakRows(const PeakSide& a, const PeakSide& b, PeakKey key)
{
    const RowFinder finder(a, b, key);
    std::map<PeakRowKey, PeakRow> rows;
    for (const PeakHolding& holding : a.holdings) {
        PeakRow& row = rows[finder.ofA(holding)];
        row.a += holding.bytes;
        row.blocksA += holding.blocks;
    }
    for (const PeakHolding& holding : b.holdings) {
        PeakRow& row = rows[finder.ofB(holding)];
        row.b += holding.bytes;
        row.blocksB += holding.blocks;
    }
    std::vector<PeakRow> result;
    for (auto& [name, row] : rows) {
        row.ofCategory = name.first;
        row.name = name.second;
        result.push_back(std::move(row));
    }
    largestFirst(result, [](const PeakRow& row) { return std::pair(row.ofCategory, std::string_view(row.name)); });
    return result;
}

} // namespace headroom
