// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/compare/peak_comparison.h"

#include "core/base/common_subsequence.h"
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
        for (const ComparedOp& kind : side.kinds) {
            const ComparedOp common{std::string(exactNames_ ? kind.name : commonOpName(kind.name)),
                                    modules_ ? kind.module : std::string(), kind.phase};
            const auto [found, isNew] = known_.try_emplace(common, shown_.size());
            if (isNew)
                shown_.push_back({kind.name, common.module, kind.phase});
            numbers.push_back(found->second);
        }
        KindKeys keys;
        keys.reserve(side.ops.size());
        for (const std::uint32_t kind : side.ops)
            keys.push_back(numbers[kind]);
        return keys;
    }

    const ComparedOp& operator[](std::uint64_t number) const { return shown_[number]; }
    std::size_t size() const noexcept { return shown_.size(); }

private:
    bool exactNames_;
    bool modules_;
    std::map<ComparedOp, std::uint64_t> known_;
    std::vector<ComparedOp> shown_; ///< the first kind of each number
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
    for (const ComparedOp& kind : side.kinds)
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
    for (const auto& [i, j] :
         commonSubsequence(keysA, keysB, static_cast<int>(std::clamp<std::size_t>(edits, 16, 400)))) {
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
    comparison.cause = causeOf(a, b, key);
    std::ranges::move(notesOnSides(a, b), std::back_inserter(comparison.notes));
    return comparison;
}

PeakTablesPtr peakTables(const PeakSide& a, const PeakSide& b)
{
    auto tables = std::make_shared<PeakTables>();
    tables->nameA = a.name;
    tables->nameB = b.name;
    tables->peakA = a.peak;
    tables->peakB = b.peak;
    for (const PeakKey key : {PeakKey::module, PeakKey::line, PeakKey::category})
        tables->by[static_cast<std::size_t>(key)] = comparePeaks(a, b, key);
    tables->ops = opChanges(a, b);
    return tables;
}

} // namespace headroom
