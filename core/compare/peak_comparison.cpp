// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/compare/peak_comparison.h"

#include "core/base/common_places.h"
#include "core/compare/step_comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

namespace headroom {

namespace {

using PeakRowKey = std::pair<bool, std::string>; ///< whether the row is of a category, and the row's name

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

    const std::string& nameA(std::uint32_t line) const { return namesA_[line]; }
    const std::string& nameB(std::uint32_t line) const { return namesB_[line]; }

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
        for (const auto& [i, j] : commonPlaces(opsOf(a_, linesA), opsOf(b_, linesB))) {
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

/// Finds the row of a block.
class RowFinder
{
public:
    RowFinder(const PeakSide& a, const PeakSide& b, PeakKey key)
        : key_(key)
    {
        if (key == PeakKey::line)
            lines_.emplace(a, b);
    }

    PeakRowKey ofA(const PeakHolding& holding) const { return of(holding, &LinePairs::nameA); }
    PeakRowKey ofB(const PeakHolding& holding) const { return of(holding, &LinePairs::nameB); }

private:
    PeakRowKey of(const PeakHolding& holding, const std::string& (LinePairs::*name)(std::uint32_t) const) const
    {
        if (key_ == PeakKey::module && holding.ofModule)
            return {false, holding.module};
        if (key_ == PeakKey::line && holding.line != UINT32_MAX)
            return {false, ((*lines_).*name)(holding.line)};
        return {true, std::string(categoryName(holding.category))};
    }

    PeakKey key_;
    std::optional<LinePairs> lines_;
};

/// Sorts by the size of the difference, then by `name`.
template <class Item, class Name>
void largestFirst(std::vector<Item>& items, Name name)
{
    std::ranges::sort(items, [&](const Item& x, const Item& y) {
        const Bytes left = std::abs(x.difference());
        const Bytes right = std::abs(y.difference());
        return left != right ? left > right : name(x) < name(y);
    });
}

} // namespace

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

std::string whyNotBy(PeakKey key, const PeakSide& a, const PeakSide& b)
{
    if (key == PeakKey::category)
        return {};
    const bool byModule = key == PeakKey::module;
    const bool inA = byModule ? a.namesModules : !a.lines.empty();
    const bool inB = byModule ? b.namesModules : !b.lines.empty();
    if (inA && inB)
        return {};
    return (inA       ? b.name + " has"
                : inB ? a.name + " has"
                      : std::string("The files have"))
        + (byModule ? " no modules" : " no source lines") + ", so that the rows are categories.";
}

std::string_view changeName(OpChange::Change change)
{
    constexpr std::array<std::string_view, 4> names{"new", "gone", "larger", "smaller"};
    return names[static_cast<std::size_t>(change)];
}

namespace {

using KindKeys = std::vector<std::uint64_t>;

/// The product of ops and edits that a search for a common subsequence may take: below a second.
constexpr std::size_t mostPairingSteps = 400'000'000;

/// Numbers the kinds of two files: kinds that can be paired have equal numbers.
class CommonKinds
{
public:
    CommonKinds(bool exactNames, bool modules)
        : exactNames_(exactNames)
        , modules_(modules)
    {
    }

    KindKeys of(const PeakSide& side)
    {
        std::vector<std::uint64_t> numbers;
        for (const OpKind& kind : side.kinds) {
            const OpKind common{std::string(exactNames_ ? kind.name : commonOpName(kind.name)),
                                modules_ ? kind.module : std::string(), kind.phase};
            const auto [found, isNew] = known_.try_emplace(common, shown_.size());
            if (isNew)
                shown_.push_back(kind);
            numbers.push_back(found->second);
        }
        KindKeys keys;
        keys.reserve(side.ops.size());
        for (const std::uint32_t kind : side.ops)
            keys.push_back(numbers[kind]);
        return keys;
    }

    const OpKind& operator[](std::uint64_t number) const { return shown_[number]; }
    std::size_t size() const noexcept { return shown_.size(); }

private:
    bool exactNames_;
    bool modules_;
    std::map<OpKind, std::uint64_t> known_;
    std::vector<OpKind> shown_; ///< the first kind of each number
};

/// Pairs the ops that no subsequence has paired: the first with the first of the same number. Such ops have moved.
void pairMoved(const KindKeys& a, const KindKeys& b, std::size_t numbers, std::vector<std::uint32_t>& pairOfA,
               std::vector<bool>& pairedB)
{
    std::vector<std::vector<std::uint32_t>> left(numbers); // ops of b, the last first
    for (std::size_t i = b.size(); i-- > 0;)
        if (!pairedB[i])
            left[b[i]].push_back(static_cast<std::uint32_t>(i));
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (pairOfA[i] != UINT32_MAX || left[a[i]].empty())
            continue;
        pairOfA[i] = left[a[i]].back();
        pairedB[pairOfA[i]] = true;
        left[a[i]].pop_back();
    }
}

std::set<std::string_view> opModulesOf(const PeakSide& side)
{
    std::set<std::string_view> modules;
    for (const OpKind& kind : side.kinds)
        modules.insert(kind.module);
    modules.erase(std::string_view());
    return modules;
}

/// Returns whether ops of both files name a module, and none in common.
bool namesDiffer(const PeakSide& a, const PeakSide& b)
{
    const std::set<std::string_view> first = opModulesOf(a);
    const std::set<std::string_view> second = opModulesOf(b);
    return first.empty() != second.empty()
        || (!first.empty()
            && std::ranges::none_of(first, [&](std::string_view module) { return second.contains(module); }));
}

/// Sums up changes by kind.
class ChangeSums
{
public:
    void add(OpChange::Change change, std::uint64_t number, Bytes a, Bytes b)
    {
        OpChange& sum = sums_[{number, change}];
        ++sum.count;
        sum.a += a;
        sum.b += b;
    }

    std::vector<OpChange> changes(const CommonKinds& kinds) &&
    {
        std::vector<OpChange> result;
        for (auto& [key, sum] : sums_) {
            sum.kind = kinds[key.first];
            sum.change = key.second;
            result.push_back(std::move(sum));
        }
        largestFirst(result, [](const OpChange& change) { return std::tie(change.kind, change.change); });
        return result;
    }

private:
    std::map<std::pair<std::uint64_t, OpChange::Change>, OpChange> sums_;
};

} // namespace

OpChanges opChanges(const PeakSide& a, const PeakSide& b)
{
    using enum OpChange::Change;
    OpChanges result;
    result.opsA = static_cast<std::int64_t>(a.ops.size());
    result.opsB = static_cast<std::int64_t>(b.ops.size());
    if (!a.namesOps || !b.namesOps) {
        result.note = (a.namesOps ? b.name : a.name) + " names no ops, so that ops are not compared.";
        return result;
    }
    const bool otherNames = namesDiffer(a, b);
    if (otherNames)
        result.note = "The files name no module alike, so that ops are paired without modules.";
    CommonKinds kinds(a.source == b.source, !otherNames);
    const KindKeys keysA = kinds.of(a);
    const KindKeys keysB = kinds.of(b);
    const std::size_t edits = mostPairingSteps / std::max<std::size_t>(keysA.size() + keysB.size(), 1);
    std::vector<std::uint32_t> pairOfA(keysA.size(), UINT32_MAX);
    std::vector<bool> pairedB(keysB.size(), false);
    for (const auto& [i, j] : commonPlaces(keysA, keysB, static_cast<int>(std::clamp<std::size_t>(edits, 16, 400)))) {
        pairOfA[i] = j;
        pairedB[j] = true;
    }
    pairMoved(keysA, keysB, kinds.size(), pairOfA, pairedB);
    ChangeSums sums;
    for (std::size_t i = 0; i < keysA.size(); ++i) {
        const bool paired = pairOfA[i] != UINT32_MAX;
        result.pairs += paired ? 1 : 0;
        const Bytes made = paired ? b.made[pairOfA[i]] : 0;
        if (!paired)
            sums.add(gone, keysA[i], a.made[i], 0);
        else if (made != a.made[i])
            sums.add(made > a.made[i] ? larger : smaller, keysA[i], a.made[i], made);
    }
    for (std::size_t i = 0; i < keysB.size(); ++i)
        if (!pairedB[i])
            sums.add(isNew, keysB[i], 0, b.made[i]);
    result.changes = std::move(sums).changes(kinds);
    return result;
}

namespace {

std::string_view categoryWords(Category category)
{
    constexpr std::array<std::string_view, categoryCount> words{"parameters",
                                                                "buffers",
                                                                "gradients",
                                                                "activations",
                                                                "temporaries",
                                                                "optimizer state",
                                                                "inputs",
                                                                "other blocks",
                                                                "memory outside of PyTorch",
                                                                "unsharded parameters",
                                                                "unsharded gradients",
                                                                "buffers of collectives"};
    return words[static_cast<std::size_t>(category)];
}

/// "layers.3.attention" → "layers.*.attention": the layers of a model are one part of a sentence.
std::string withoutNumbers(std::string_view module)
{
    std::string pattern;
    while (true) {
        const std::size_t dot = module.find('.');
        const std::string_view part = module.substr(0, dot);
        const bool isNumber = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
        pattern += isNumber ? std::string_view("*") : part;
        if (dot == std::string_view::npos)
            return pattern;
        pattern += '.';
        module.remove_prefix(dot + 1);
    }
}

/// The differences of a part of the blocks: of similar modules, or of a category.
struct PeakPart
{
    Bytes difference = 0;
    std::map<std::string, Bytes> modules;
    std::map<Category, Bytes> categories;
    std::map<std::string, Bytes> ops;
};
using PeakParts = std::map<PeakRowKey, PeakPart>;

PeakParts partsBy(const PeakSide& a, const PeakSide& b, PeakKey key)
{
    const RowFinder finder(a, b, key);
    PeakParts parts;
    const auto add = [&](const PeakHolding& holding, PeakRowKey name, Bytes bytes) {
        if (key == PeakKey::module)
            name.second = withoutNumbers(name.second);
        PeakPart& part = parts[name];
        part.difference += bytes;
        part.categories[holding.category] += bytes;
        part.ops[holding.op] += bytes;
        if (holding.ofModule)
            part.modules[holding.module] += bytes;
    };
    for (const PeakHolding& holding : a.holdings)
        add(holding, finder.ofA(holding), -holding.bytes);
    for (const PeakHolding& holding : b.holdings)
        add(holding, finder.ofB(holding), holding.bytes);
    return parts;
}

/// Returns the largest value of a map of differences in the direction of `sign`.
template <class Map, class Value>
auto largestPart(const Map& map, int sign, Value value)
{
    return std::ranges::max_element(map, {}, [&](const auto& entry) { return sign * value(entry.second); });
}

constexpr auto differenceOfPart = [](const PeakPart& part) { return part.difference; };

std::string signedBytes(Bytes bytes)
{
    return (bytes > 0 ? "+" : "") + formatBytes(bytes);
}

/// Returns " allocated by aten.bmm.default (+0.80 GiB)", of at most two ops; empty: no op allocated much of the part.
std::string opsText(const PeakPart& part, int sign)
{
    constexpr Bytes leastShare = 5; // of the part: a fifth
    std::vector<std::pair<Bytes, std::string_view>> ops;
    for (const auto& [op, bytes] : part.ops)
        if (!op.empty() && sign * bytes * leastShare >= std::abs(part.difference) && bytes != 0)
            ops.emplace_back(bytes, op);
    std::ranges::stable_sort(ops, std::ranges::greater(), [&](const auto& op) { return sign * op.first; });
    std::string text;
    for (const auto& [bytes, op] : std::span(ops).first(std::min<std::size_t>(ops.size(), 2)))
        text += (text.empty() ? ", allocated by " : " and ") + std::string(op) + " (" + signedBytes(bytes) + ")";
    return text;
}

/// Returns what a part consists of: "activations of layers.*.attention (12 modules)".
std::string partText(const PeakParts::value_type& entry, PeakKey by, int sign, const std::string& root)
{
    const auto& [key, part] = entry;
    const auto main = largestPart(part.categories, sign, [](Bytes bytes) { return bytes; });
    const bool clear = 2 * sign * main->second > std::abs(part.difference);
    if (key.first)
        return std::string(categoryWords(main->first));
    std::string text = clear ? std::string(categoryWords(main->first)) + " of " : std::string("in ");
    const auto changed = [&](const auto& module) { return sign * module.second > 0; };
    const auto count = std::ranges::count_if(part.modules, changed);
    const bool isModule = by == PeakKey::module;
    const std::string& name = isModule && count == 1 ? std::ranges::find_if(part.modules, changed)->first : key.second;
    text += name.empty() ? root : name;
    if (isModule && count > 1)
        text += " (" + std::to_string(count) + " modules)";
    return text;
}

std::string shareText(Bytes part, Bytes all)
{
    const long percent = std::lround(100.0 * static_cast<double>(part) / static_cast<double>(all));
    return percent > 0 && percent <= 100 ? " (" + std::to_string(percent) + " %)" : std::string();
}

std::string rootName(const PeakSide& a, const PeakSide& b)
{
    return a.root == b.root && !a.root.empty() ? a.root : "the root module";
}

std::string inPhase(const std::string& phase)
{
    if (phase == "start")
        return "at the start of the step";
    return phase == "optimizer" ? "in the optimizer's step" : "in " + phase;
}

std::string peaksText(const PeakSide& a, const PeakSide& b)
{
    const Bytes difference = b.peak - a.peak;
    if (difference == 0)
        return a.name + " and " + b.name + " peak at the same " + exactBytes(a.peak);
    return b.name + " peaks " + exactBytes(std::abs(difference)) + (difference > 0 ? " above " : " below ") + a.name;
}

/// Returns the part that explains most of a difference: similar modules, or a category if the difference is spread over
/// many modules.
PeakParts explainingParts(const PeakSide& a, const PeakSide& b, PeakKey key, int sign)
{
    PeakParts parts = partsBy(a, b, key);
    constexpr Bytes enough = 4; // a quarter of the difference
    const auto most = largestPart(parts, sign, differenceOfPart);
    const bool explains = most != parts.end() && enough * sign * most->second.difference >= std::abs(b.peak - a.peak);
    return key == PeakKey::category || explains ? parts : partsBy(a, b, PeakKey::category);
}

std::string causeOf(const PeakSide& a, const PeakSide& b, PeakKey key)
{
    const Bytes difference = b.peak - a.peak;
    const int sign = difference < 0 ? -1 : 1;
    const PeakParts parts = explainingParts(a, b, key, sign);
    const std::string root = rootName(a, b);
    std::string text = peaksText(a, b);
    const auto most = largestPart(parts, sign, differenceOfPart);
    const bool hasCause = most != parts.end() && sign * most->second.difference > 0;
    if (hasCause)
        text += ". The largest part, " + signedBytes(most->second.difference)
            + (difference == 0 ? std::string() : shareText(most->second.difference, difference)) + ", is "
            + partText(*most, key, sign, root) + opsText(most->second, sign);
    // A part in the other direction that hides a tenth of the difference, or more.
    const auto against = largestPart(parts, -sign, differenceOfPart);
    if (hasCause && -sign * against->second.difference * 10 >= std::abs(difference) && against->second.difference != 0)
        text += "; " + partText(*against, key, -sign, root) + ": " + signedBytes(against->second.difference);
    text += '.';
    if (a.instant.phase != b.instant.phase)
        text += " " + a.name + " peaks " + inPhase(a.instant.phase) + " and " + b.name + " " + inPhase(b.instant.phase)
            + ", so that the rows compare two phases.";
    return text;
}

std::vector<std::string> notesOnSides(const PeakSide& a, const PeakSide& b)
{
    std::vector<std::string> notes;
    for (const PeakSide* side : {&a, &b})
        if (side->nonPyTorch > 0)
            notes.push_back("The peak of " + side->name + " is without " + formatBytes(side->nonPyTorch)
                            + " that is not PyTorch's.");
    return notes;
}

} // namespace

PeakComparison comparePeaks(const PeakSide& a, const PeakSide& b, PeakKey key)
{
    PeakComparison comparison;
    if (std::string why = whyNotBy(key, a, b); !why.empty()) {
        comparison.notes.push_back(std::move(why));
        key = PeakKey::category;
    }
    comparison.key = key;
    comparison.rows = peakRows(a, b, key);
    comparison.ops = opChanges(a, b);
    comparison.cause = causeOf(a, b, key);
    std::ranges::move(notesOnSides(a, b), std::back_inserter(comparison.notes));
    if (!comparison.ops.note.empty())
        comparison.notes.push_back(comparison.ops.note);
    return comparison;
}

} // namespace headroom
