// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/piecewise_problem.h"

#include "core/base/curves.h"
#include "core/base/try.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>
#include <tuple>

namespace headroom {

namespace {

/// Whether two curves differ only by noise of the fit: PyTorch's curves of identical layers differ by 1e-7 to 2e-5.
bool nearlyEqual(const RecomputeCurve& a, const RecomputeCurve& b)
{
    constexpr double noise = 1e-4;
    const auto close = [&](Bytes bytes) {
        const double ms = a.msAt(bytes);
        return std::abs(ms - b.msAt(bytes)) <= noise * ms;
    };
    for (const RecomputeCurve* curve : {&a, &b}) {
        Bytes corner = curve->freeBytes();
        if (!close(corner))
            return false;
        for (const RecomputeCurve::Piece& piece : curve->pieces())
            if (!close(corner += piece.bytes))
                return false;
    }
    return true;
}

using Members = std::vector<std::vector<RecomputeCurve*>>;

/// Numbers the classes of a coarseness. Returns the curves of each class, the first module's first.
Members classify(PiecewiseModules& model, std::size_t coarseness)
{
    using Key = std::tuple<Bytes, Bytes, double>;
    std::map<Key, std::vector<std::size_t>> classesOf;
    Members members;
    for (std::size_t module = 0; module < model.modules.size(); ++module) {
        PiecewiseModules::Module& entry = model.modules[module];
        if (!model.tree.modules[module].candidate)
            continue;
        const ModuleStats& stats = model.tree.info->stats[module];
        auto& known = classesOf[{stats.activationForward, stats.sacMemory, stats.sacRuntimeMs}];
        const auto same = std::ranges::find_if(known, [&](std::size_t candidate) {
            return coarseness == PiecewiseModules::byMemoryAndTime
                || nearlyEqual(*members[candidate].front(), entry.curve);
        });
        const std::size_t found = same != known.end() ? *same : members.size();
        if (same == known.end()) {
            known.push_back(found);
            members.emplace_back();
        }
        members[found].push_back(&entry.curve);
        entry.classes[coarseness] = static_cast<int>(found);
    }
    return members;
}

/// Gives modules the same curve if the curves differ only by noise.
void removeNoise(PiecewiseModules& model)
{
    for (auto& curves : classify(model, PiecewiseModules::byCurve)) {
        for (RecomputeCurve* curve : curves)
            *curve = *curves.front();
        model.classCurves[PiecewiseModules::byCurve].push_back(*curves.front());
    }
}

void findEnvelopes(PiecewiseModules& model)
{
    for (const auto& curves : classify(model, PiecewiseModules::byMemoryAndTime))
        model.classCurves[PiecewiseModules::byMemoryAndTime].push_back(
            RecomputeCurve::lowerEnvelope({curves.begin(), curves.end()}));
}

} // namespace

Result<PiecewiseModules> PiecewiseModules::create(ModuleInfoPtr info)
{
    ASSIGN_OR_RETURN(PlanModules tree, PlanModules::create(std::move(info)));
    PiecewiseModules model;
    model.tree = std::move(tree);
    for (std::size_t module = 0; module < model.tree.modules.size(); ++module) {
        model.modules.emplace_back();
        if (model.tree.modules[module].candidate)
            model.modules.back().curve = RecomputeCurve(model.tree.info->stats[module]);
    }
    removeNoise(model);
    findEnvelopes(model);
    return model;
}

namespace {

struct Corner
{
    Bytes bytes = 0;
    double ms = 0;
    double msPerByte = 0; ///< slope of the line that begins here
};

} // namespace

RecomputeCurve::RecomputeCurve(const ModuleStats& module)
{
    const double kept = static_cast<double>(module.activationForward);
    const double all = std::max(static_cast<double>(module.sacMemory), kept); // as sac_milp: never below act_fw
    std::vector<Line> lines{Line{}};
    for (std::size_t segment = 0; segment < module.slopes.size(); ++segment) {
        const double msPerShare = module.sacRuntimeMs * module.slopes[segment];
        const double msAtNone = module.sacRuntimeMs * module.intercepts[segment];
        lines.push_back({msAtNone + msPerShare * (all - kept) / all, msPerShare / all});
    }
    *this = RecomputeCurve(std::move(lines), module.activationForward);
}

RecomputeCurve::RecomputeCurve(std::vector<Line> lines, Bytes maxBytes)
    : maxBytes_(maxBytes)
{
    const auto highest = [&](Bytes bytes) {
        double ms = 0;
        for (const Line& line : lines)
            ms = std::max(ms, line.msAtZero + line.msPerByte * static_cast<double>(bytes));
        return ms;
    };
    // Corners of the upper envelope: from the line that is highest at 0, always on to the line that overtakes first.
    Line current{-1, 0};
    for (const Line& line : lines)
        if (line.msAtZero > current.msAtZero
            || (line.msAtZero == current.msAtZero && line.msPerByte > current.msPerByte))
            current = line;
    std::vector<Corner> corners{{0, highest(0), current.msPerByte}};
    for (;;) {
        const Line* next = nullptr;
        double nextBytes = static_cast<double>(maxBytes);
        for (const Line& line : lines) {
            if (line.msPerByte <= current.msPerByte)
                continue;
            const double crossing = (current.msAtZero - line.msAtZero) / (line.msPerByte - current.msPerByte);
            if (crossing < nextBytes
                || (next != nullptr && crossing == nextBytes && line.msPerByte > next->msPerByte)) {
                nextBytes = crossing;
                next = &line;
            }
        }
        if (next == nullptr)
            break;
        const auto bytes = static_cast<Bytes>(std::floor(std::max(nextBytes, 0.0)));
        current = *next;
        if (bytes > corners.back().bytes)
            corners.push_back({bytes, highest(bytes), current.msPerByte});
        else
            corners.back().msPerByte = current.msPerByte;
    }
    corners.push_back({maxBytes, highest(maxBytes), 0});

    // Bytes that cost no more time are always discarded.
    std::size_t first = 0;
    while (first + 1 < corners.size() && corners[first].msPerByte <= 0)
        ++first;
    baseMs_ = corners[first].ms;
    freeBytes_ = corners[first].bytes;
    for (; first + 1 < corners.size(); ++first)
        if (corners[first + 1].bytes > corners[first].bytes)
            pieces_.push_back({corners[first + 1].bytes - corners[first].bytes, corners[first].msPerByte});
}

double RecomputeCurve::msAt(Bytes discarded) const
{
    double ms = baseMs_;
    Bytes left = discarded - freeBytes_;
    for (const Piece& piece : pieces_) {
        if (left <= 0)
            break;
        const Bytes taken = std::min(left, piece.bytes);
        ms += piece.msPerByte * static_cast<double>(taken);
        left -= taken;
    }
    return ms;
}

RecomputeCurve RecomputeCurve::lowerEnvelope(const std::vector<const RecomputeCurve*>& curves)
{
    const RecomputeCurve& first = *curves.front();
    if (std::ranges::all_of(curves, [&](const RecomputeCurve* curve) { return *curve == first; }))
        return first;

    std::vector<Bytes> grid{0, first.maxBytes_};
    for (const RecomputeCurve* curve : curves) {
        Bytes bytes = curve->freeBytes_;
        grid.push_back(bytes);
        for (const Piece& piece : curve->pieces_)
            grid.push_back(bytes += piece.bytes);
    }
    std::ranges::sort(grid);
    const auto [duplicates, end] = std::ranges::unique(grid);
    grid.erase(duplicates, end);

    std::vector<Corner> least;
    for (const Bytes bytes : grid) {
        Corner& corner = least.emplace_back(bytes, first.msAt(bytes));
        for (const RecomputeCurve* curve : curves)
            corner.ms = std::min(corner.ms, curve->msAt(bytes));
    }
    const std::vector<std::size_t> hull = lowerHull(
        least, [](const Corner& corner) { return corner.bytes; }, [](const Corner& c) { return c.ms; });
    // Slightly different curves leave many short edges. Without short edges, the neighbours' lines meet a little lower.
    const Bytes shortest = first.maxBytes_ / 1000;
    std::vector<Line> lines{Line{}};
    for (std::size_t i = 1; i < hull.size(); ++i) {
        const Corner& corner = least[hull[i]];
        const Corner& before = least[hull[i - 1]];
        if (corner.bytes - before.bytes < shortest)
            continue;
        const double msPerByte = (corner.ms - before.ms) / static_cast<double>(corner.bytes - before.bytes);
        lines.push_back({corner.ms - msPerByte * static_cast<double>(corner.bytes), msPerByte});
    }
    return {std::move(lines), first.maxBytes_};
}

namespace {

constexpr Bytes impossible = std::numeric_limits<Bytes>::min();

Bytes dividedUp(Bytes bytes, int parts)
{
    return (bytes + parts - 1) / parts;
}

} // namespace

Result<PiecewiseProblem> PiecewiseProblem::create(const PiecewiseModules& modules, const PlanRequest& request)
{
    RETURN_IF_ERROR(checkWorldSize(request));
    if (request.budget < 1)
        return badInput("budget " + std::to_string(request.budget) + " B: expected 1 B or more");
    ASSIGN_OR_RETURN(std::vector<PlanUnit> units, planUnits(modules.tree, request));
    PiecewiseProblem problem(modules, std::move(units));
    problem.findRows(request.worldSize);
    return problem;
}

void PiecewiseProblem::findRows(int worldSize)
{
    const std::vector<ModuleStats>& stats = modules_->tree.info->stats;
    std::vector<MemoryRow> all;
    for (std::size_t module = 0; module < stats.size(); ++module) {
        const int position = modules_->tree.modules[module].position;
        const auto before = std::ranges::lower_bound(units_, position, {}, [&](const PlanUnit& unit) {
            return modules_->tree.modules[static_cast<std::size_t>(unit.module)].position;
        });
        const Bytes sharded = dividedUp(stats.front().paramBytes + stats[module].gradTotal, worldSize);
        all.push_back({static_cast<int>(before - units_.begin()),
                       stats[module].activationTotal + stats[module].activationGrad + sharded,
                       static_cast<int>(module)});
    }
    std::ranges::stable_sort(all, [](const MemoryRow& a, const MemoryRow& b) {
        return a.units != b.units ? a.units < b.units : a.required > b.required;
    });
    for (const MemoryRow& row : all)
        if (rows_.empty() || row.required > rows_.back().required)
            rows_.push_back(row);

    lastRow_.assign(units_.size() + 1, -1);
    std::size_t next = 0;
    for (std::size_t count = 0; count < lastRow_.size(); ++count) {
        while (next < rows_.size() && rows_[next].units <= static_cast<int>(count))
            ++next;
        lastRow_[count] = static_cast<int>(next) - 1;
    }
}

const RecomputeCurve& PiecewiseProblem::curve(int unit) const
{
    return modules_->modules[static_cast<std::size_t>(units_[static_cast<std::size_t>(unit)].module)].curve;
}

/// Whether all memory constraints that count at most the first `units` units hold if the units discard so much. The
/// last such constraint implies the others.
bool PiecewiseProblem::rowHolds(int units, Bytes discarded, Bytes budget) const
{
    const int row = lastRow_[static_cast<std::size_t>(units)];
    return row < 0 || rows_[static_cast<std::size_t>(row)].required - discarded <= budget;
}

/// The most bytes that can be discarded up to the end of `unit` if `before` bytes are discarded before the first
/// submodule of `unit` and every memory constraint in between holds; `impossible` if no choice fits. To discard more is
/// never worse for later constraints, so that subtrees are decided in sequence. `whole` becomes, for each unit inside,
/// whether a checkpoint of the whole unit discards most.
Bytes PiecewiseProblem::mostDiscarded(int unit, Bytes before, Bytes budget, std::vector<bool>& whole) const
{
    const PlanUnit& self = units_[static_cast<std::size_t>(unit)];
    Bytes parts = self.forced ? impossible : before;
    if (!self.forced)
        for (const int child : self.children) {
            parts = mostDiscarded(child, parts, budget, whole);
            if (parts == impossible)
                break;
        }
    const Bytes asWhole = rowHolds(unit, before, budget) ? before + curve(unit).maxBytes() : impossible;
    whole[static_cast<std::size_t>(unit)] = asWhole >= parts;
    const Bytes most = std::max(asWhole, parts);
    return most != impossible && rowHolds(unit + 1, most, budget) ? most : impossible;
}

std::optional<std::vector<bool>> PiecewiseProblem::mostDiscarding(Bytes budget) const
{
    if (!rowHolds(0, 0, budget))
        return std::nullopt;
    std::vector<bool> whole(units_.size());
    Bytes discarded = 0;
    for (std::size_t unit = 0; unit < units_.size(); ++unit)
        if (units_[unit].parent < 0) {
            discarded = mostDiscarded(static_cast<int>(unit), discarded, budget, whole);
            if (discarded == impossible)
                return std::nullopt;
        }
    // No unit inside a unit that is taken as a whole is taken.
    for (std::size_t unit = units_.size(); unit-- > 0;)
        if (whole[unit])
            std::fill(whole.begin() + units_[unit].firstInside, whole.begin() + static_cast<std::ptrdiff_t>(unit),
                      false);
    return whole;
}

Bytes PiecewiseProblem::leastBudget() const
{
    Bytes tooLittle = -1;
    Bytes enough = rows_.back().required;
    while (enough - tooLittle > 1) {
        const Bytes middle = tooLittle + (enough - tooLittle) / 2;
        (mostDiscarding(middle) ? enough : tooLittle) = middle;
    }
    return enough;
}

std::optional<PiecewiseProblem::Discards> PiecewiseProblem::allocate(const std::vector<bool>& chosen, Bytes budget,
                                                                     std::span<const int> rows,
                                                                     Preference preference) const
{
    // The sets of units that memory constraints count are nested. So the cheapest choice goes through the constraints
    // in order, and buys for each constraint the cheapest bytes that count there.
    struct Offer
    {
        double msPerByte;
        int unit;
        std::size_t piece;
    };
    const auto dearer = [preference](const Offer& a, const Offer& b) {
        if (a.msPerByte != b.msPerByte)
            return a.msPerByte > b.msPerByte;
        return preference == Preference::earlier ? a.unit > b.unit : a.unit < b.unit;
    };
    std::priority_queue<Offer, std::vector<Offer>, decltype(dearer)> offers(dearer);
    Discards discards;
    discards.bytes.assign(units_.size(), 0);
    std::vector<Bytes> left(units_.size(), 0); // by unit: bytes left of the piece on offer
    Bytes sum = 0;
    int seen = 0;
    const auto offer = [&](int unit, std::size_t piece) {
        const auto pieces = curve(unit).pieces();
        if (piece < pieces.size()) {
            left[static_cast<std::size_t>(unit)] = pieces[piece].bytes;
            offers.push({pieces[piece].msPerByte, unit, piece});
        }
    };
    const auto see = [&](int count) {
        for (; seen < count; ++seen)
            if (chosen[static_cast<std::size_t>(seen)]) {
                discards.bytes[static_cast<std::size_t>(seen)] = curve(seen).freeBytes();
                sum += curve(seen).freeBytes();
                offer(seen, 0);
            }
    };
    for (const int index : rows) {
        const MemoryRow& row = rows_[static_cast<std::size_t>(index)];
        see(row.units);
        while (row.required - sum > budget) {
            if (offers.empty())
                return std::nullopt;
            const Offer best = offers.top();
            Bytes& rest = left[static_cast<std::size_t>(best.unit)];
            const Bytes bought = std::min(rest, row.required - sum - budget);
            discards.bytes[static_cast<std::size_t>(best.unit)] += bought;
            sum += bought;
            rest -= bought;
            if (rest == 0) {
                offers.pop();
                offer(best.unit, best.piece + 1);
            }
        }
    }
    see(static_cast<int>(units_.size()));
    for (std::size_t unit = 0; unit < units_.size(); ++unit)
        if (chosen[unit])
            discards.ms += curve(static_cast<int>(unit)).msAt(discards.bytes[unit]);
    return discards;
}

PiecewiseProblem::Peak PiecewiseProblem::peak(const std::vector<Bytes>& discarded) const
{
    Peak peak{impossible, 0};
    Bytes sum = 0;
    int seen = 0;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
        while (seen < rows_[row].units)
            sum += discarded[static_cast<std::size_t>(seen++)];
        if (rows_[row].required - sum > peak.bytes)
            peak = {rows_[row].required - sum, static_cast<int>(row)};
    }
    return peak;
}

} // namespace headroom
