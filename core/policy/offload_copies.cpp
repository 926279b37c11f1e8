// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/offload_copies.h"

#include "core/plan/chain_problem.h"
#include "core/predict/regions.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace headroom {

namespace {

constexpr double noTime = std::numeric_limits<double>::infinity();
constexpr double launchMs = 0.004; ///< of ClockMemory
constexpr double leastIdleMs = 1e-7; ///< the simplex method takes no smaller coefficients

double above(double a, double b)
{
    return std::max(0.0, a - b);
}

/// A call of a part of the chain.
struct PartCall
{
    std::uint32_t enter = 0, exit = 0, firstUnpack = StepIndex::never, lastUnpack = 0; ///< events
};

class LimitsBuilder
{
public:
    LimitsBuilder(const StepModel& model, const EventTimes& times, const PartTree& tree, const RowProblem& rows)
        : trace_(*model.trace())
        , index_(model.index())
        , times_(times)
        , issues_(opIssues(trace_))
        , after_(modulesAfter(model, tree))
    {
        limits_.link = hostLinkOf(trace_.info);
        for (const int part : tree.parts)
            addPart(tree.units[static_cast<std::size_t>(part)].module);
        limits_.forwardMs.assign(parts_.size(), 0);
        limits_.backwardMs.assign(parts_.size(), 0);
        limits_.idleAgain.assign(tree.units.size(), {});
        for (const int part : tree.parts)
            setIdle(tree, part);
        for (const PartTree::Around& around : tree.around)
            setIdle(tree, around.unit);
        if (parts_.empty())
            return;
        const auto cpuMs = [&](const auto& arc, const auto& effect) { return limits_.cpuMs(arc, effect); };
        double moreMs = mostBefore(rows, cpuMs).back(); // CPU time of any plan
        if (isChain()) {
            setChain(rows, moreMs);
        } else {
            for (const CopyLimits::Idle& idle : limits_.idleAgain)
                moreMs += idle.gapMs;
            limits_.forwardMs.front() = limits_.backwardMs.back() = times_.gpuMs.back() + moreMs;
        }
    }

    CopyLimits take() { return std::move(limits_); }

private:
    double gpuAt(std::uint32_t event) const { return times_.gpuMs[event]; }

    void setIdle(const PartTree& tree, int unit)
    {
        CopyLimits::Idle& idle = limits_.idleAgain[static_cast<std::size_t>(unit)];
        for (const CallId id : index_.callsOf[tree.units[static_cast<std::size_t>(unit)].module.value]) {
            const StepIndex::Call& call = index_.calls[id.value];
            double firstMs = 0; // the CPU issues an op before the GPU runs the op
            for (std::uint32_t op = call.firstOp; op < call.endOp; ++op) {
                const double gpuMs = trace_.ops.ms[OpId(op)] + issues_[op].gapMs;
                idle.gapMs += issues_[op].gapMs;
                idle.cpuMs += std::max(0.0, issues_[op].cpuMs - gpuMs);
                firstMs = std::max(firstMs, std::min(issues_[op].cpuMs, gpuMs));
            }
            idle.cpuMs += firstMs;
        }
    }

    /// By position: the most ms of a plan's options of the parts before.
    template <class MsOf>
    std::vector<double> mostBefore(const RowProblem& rows, const MsOf& msOf) const
    {
        std::vector<double> before(parts_.size() + 1, 0);
        for (std::size_t arc = 0; arc < rows.arcs().size(); ++arc) {
            double& most = before[at(rows.arcs()[arc].last)];
            most = std::max(most, before[at(rows.arcs()[arc].first)] + mostOf(rows, arc, msOf));
        }
        return before;
    }
    template <class MsOf>
    static double mostOf(const RowProblem& rows, std::size_t arc, const MsOf& msOf)
    {
        double most = 0;
        for (std::size_t option = 0; option < rows.optionCount(arc); ++option)
            most = std::max(most, msOf(rows.arcs()[arc], rows.effectOf({arc, option})));
        return most;
    }

    void addPart(ModuleId module)
    {
        std::vector<PartCall>& calls = parts_.emplace_back();
        for (const CallId id : index_.callsOf[module.value]) {
            const StepIndex::Call& call = index_.calls[id.value];
            if (!call.saves())
                continue;
            PartCall& own = calls.emplace_back(PartCall{call.enter, call.exit});
            for (std::uint32_t pack = call.firstPack; pack < call.endPack; ++pack)
                if (const std::uint32_t unpack = index_.unpackEvent[pack]; unpack != StepIndex::never) {
                    own.firstUnpack = std::min(own.firstUnpack, unpack);
                    own.lastUnpack = std::max(own.lastUnpack, unpack);
                }
        }
    }

    std::size_t microBatches() const { return parts_.front().size(); }

    bool isChain() const
    {
        const auto differs = [this](const std::vector<PartCall>& calls) { return calls.size() != microBatches(); };
        if (microBatches() == 0 || std::ranges::any_of(parts_, differs))
            return false;
        for (std::size_t batch = 0; batch < microBatches(); ++batch)
            for (std::size_t at = 0; at < parts_.size(); ++at) {
                const PartCall& own = parts_[at][batch];
                const bool follows = at > 0 ? own.lastUnpack <= parts_[at - 1][batch].firstUnpack
                                            : batch == 0 || own.enter >= parts_.front()[batch - 1].lastUnpack;
                if (!follows || own.enter < beginOf(at, batch) || own.firstUnpack <= own.exit
                    || own.firstUnpack == StepIndex::never)
                    return false;
            }
        return true;
    }

    /// The times of a chain, from a part's end to the end of the next part. Plans add up to `moreMs` of CPU time.
    void setChain(const RowProblem& rows, double moreMs)
    {
        limits_.isChain = true;
        limits_.microBatches = static_cast<int>(microBatches());
        std::uint32_t end = 0; // of the backward
        for (std::size_t batch = 0; batch < microBatches(); ++batch) {
            for (std::size_t at = 0; at < parts_.size(); ++at)
                limits_.forwardMs[at] += msBetween(beginOf(at, batch), parts_[at][batch].exit);
            for (std::size_t at = parts_.size(); at-- > 0;) {
                end = std::max(parts_[at][batch].lastUnpack, at > 0 ? parts_[at - 1][batch].firstUnpack : 0);
                limits_.backwardMs[at] += msBetween(parts_[at][batch].firstUnpack, end);
            }
            if (!after_.calls.empty()) {
                const PartCall& last = parts_.back()[batch];
                const auto [exit, firstUnpack] = after_.calls[batch];
                limits_.forwardMs.back() += msBetween(last.exit, std::max(exit, last.exit));
                limits_.backwardMs.back() += msBetween(std::min(firstUnpack, last.firstUnpack), last.firstUnpack);
            }
        }
        setForwardLeads(rows);
        setBackwardLeads(rows, moreMs, end);
    }

    /// Shares the CPU's lead in the first forward. A part of the lead is not shared: an arc's copies may be issued all
    /// at once, and the time of such copies would count for each arc.
    void setForwardLeads(const RowProblem& rows)
    {
        const auto copies
            = [&](const auto&, const auto& effect) { return limits_.issueMs(effect) / limits_.microBatches; };
        const std::vector<double> before = mostBefore(rows, copies);
        std::vector<double> idleMs; // by arc: CopyLimits::lateMs() of the arc's options, at most
        std::uint32_t last = 0; // event
        for (std::size_t arc = 0; arc < rows.arcs().size(); ++arc) {
            const std::size_t first = at(rows.arcs()[arc].first);
            idleMs.push_back(mostIdleMs(beginOf(first, 0), endOf(rows, arc), mostOf(rows, arc, copies)));
            if (before[first] + idleMs.back() > 0)
                last = std::max(last, endOf(rows, arc));
        }
        limits_.aheadMs.assign(last + std::size_t{1}, noTime);
        for (std::uint32_t event = last; event-- > 0;)
            limits_.aheadMs[event] = std::min(limits_.aheadMs[event + 1], aheadMs(event + 1));
        if (last == 0)
            return;
        std::vector<double> leadMs; // by position, when the arcs from there on begin
        for (std::size_t part = 0; part <= parts_.size(); ++part)
            leadMs.push_back(part < parts_.size() && beginOf(part, 0) < last ? limits_.aheadMs[beginOf(part, 0)]
                                                                             : noTime);
        double atOnceMs = 0;
        for (std::size_t arc = 0; arc < rows.arcs().size(); ++arc) {
            const double beginMs = leadMs[at(rows.arcs()[arc].first)], endMs = leadMs[at(rows.arcs()[arc].last)];
            if (rows.arcs()[arc].first > 0 && before[at(rows.arcs()[arc].first)] + idleMs[arc] > 0)
                atOnceMs
                    = std::max(atOnceMs, idleMs[arc] + beginMs - above(mostOf(rows, arc, copies), endMs - beginMs));
        }
        std::vector<double> sharedMs{0}; // by position: by the arcs before
        for (std::size_t part = 0; part < parts_.size(); ++part) {
            const double mostMs = sharedMs.back() + above(before[part + 1], before[part]);
            sharedMs.push_back(std::max(sharedMs.back(), std::min(mostMs, above(leadMs[part + 1], atOnceMs))));
        }
        for (const PartArcs::Arc& arc : rows.arcs())
            limits_.leads.push_back(
                {sharedMs[at(arc.first)], sharedMs[at(arc.last)] - sharedMs[at(arc.first)], noTime, noTime});
    }

    /// Shares the CPU's lead in the backward, if plans that add `moreMs` of CPU time can exceed the lead. In later
    /// micro-batches all of the CPU time counts like copies.
    void setBackwardLeads(const RowProblem& rows, double moreMs, std::uint32_t end)
    {
        const std::uint32_t begin = parts_.back().front().exit;
        if (leastAhead(begin, end) >= moreMs)
            return;
        limits_.leads.resize(rows.arcs().size(), {0, noTime, noTime, noTime});
        const bool isSingle = microBatches() == 1;
        const auto copyMs = [&](const auto& arc, const auto& effect) {
            return isSingle ? 2 * limits_.issueMs(effect) : limits_.cpuMs(arc, effect);
        };
        const auto againMs
            = [&](const auto& arc, const auto& effect) { return limits_.cpuMs(arc, effect) - copyMs(arc, effect); };
        const std::vector<double> copies = mostBefore(rows, copyMs), again = mostBefore(rows, againMs);
        std::vector<double> leadMs; // by position: from the begin of the part's backward on
        for (std::size_t part = 0; part < parts_.size(); ++part) {
            const bool isLast = part + 1 == parts_.size();
            const double ownMs = leastAhead(isLast ? begin : parts_[part + 1].front().firstUnpack,
                                            part > 0 ? parts_[part - 1].front().firstUnpack : end);
            leadMs.push_back(std::min(ownMs, part > 0 ? leadMs.back() : gpuAt(end)));
        }
        const std::size_t last = parts_.size() - 1;
        const double atBegin = copies.back() + above(again.back(), again[last]);
        const double copiesShare = std::min(1.0, leadMs.back() / std::max(atBegin, launchMs));
        std::vector<double> sharedMs(parts_.size() + 1, copiesShare * copies.back()); // by position: with later parts
        for (std::size_t part = last + 1; part-- > 0;)
            sharedMs[part] = sharedMs[part + 1]
                + std::min(above(again[part + 1], again[part]), above(leadMs[part], sharedMs[part + 1]));
        for (std::size_t arc = 0; arc < rows.arcs().size(); ++arc) {
            const std::size_t first = at(rows.arcs()[arc].first), next = at(rows.arcs()[arc].last);
            CopyLimits::CpuLead& lead = limits_.leads[arc];
            lead.copiesMs = copiesShare * (copies[next] - copies[first]);
            lead.againMs = std::min(above(leadMs[next - 1], sharedMs[next]), sharedMs[first] - sharedMs[next]);
        }
    }

    double msBetween(std::uint32_t begin, std::uint32_t end) const { return gpuAt(end) - gpuAt(begin); }

    std::uint32_t beginOf(std::size_t part, std::size_t batch) const
    {
        return part > 0 ? parts_[part - 1][batch].exit : parts_[part][batch].enter;
    }

    /// In the first micro-batch: the exit of an arc's last part, or of the module around the last part, or after the
    /// last part.
    std::uint32_t endOf(const RowProblem& rows, std::size_t arc) const
    {
        std::uint32_t end = parts_[at(rows.arcs()[arc].last) - 1].front().exit;
        if (at(rows.arcs()[arc].last) == parts_.size() && !after_.calls.empty())
            end = std::max(end, after_.calls.front().exit);
        for (const CallId id : index_.callsOf[rows.moduleOf(arc).value])
            if (const std::uint32_t exit = index_.calls[id.value].exit; exit < parts_.back().front().firstUnpack)
                end = std::max(end, exit);
        return end;
    }

    /// By how much the CPU may fall behind the GPU from `begin` to `end`, if copies take up to `copiesMs`; negative:
    /// the CPU stays ahead. A storage is copied once: after a pack, after an op has made the storage, or as an argument
    /// when a call begins.
    double mostIdleMs(std::uint32_t begin, std::uint32_t end, double copiesMs) const
    {
        std::vector<bool> made(trace_.storages.size(), false);
        double madeMs = 0;
        const auto make = [&](StorageId storage) {
            if (!storage || made[storage.value]) // invalid: on the CPU
                return;
            made[storage.value] = true;
            madeMs += limits_.link.issueMs;
        };
        double most = -noTime;
        for (EventIndex event(begin); event.value <= end; ++event.value) {
            most = std::max(most, std::min(copiesMs, madeMs) - aheadMs(event.value));
            if (trace_.events.kind[event] == EventKind::pack)
                make(trace_.packs.storage[PackId(trace_.events.a[event])]);
            else if (trace_.events.kind[event] == EventKind::enter)
                std::ranges::for_each(trace_.calls.arguments[CallId(trace_.events.a[event])], make);
            else if (trace_.events.kind[event] == EventKind::opBegin)
                std::ranges::for_each(trace_.ops.outputs[OpId(trace_.events.a[event])], make);
        }
        return most;
    }

    double leastAhead(std::uint32_t first, std::uint32_t last) const
    {
        double least = noTime;
        for (std::uint32_t event = first; event <= last; ++event)
            least = std::min(least, aheadMs(event));
        return least;
    }

    /// The time that the CPU is ahead of the GPU when an op begins; infinite at other events.
    double aheadMs(std::uint32_t event) const
    {
        if (trace_.events.kind[EventIndex(event)] != EventKind::opBegin)
            return noTime;
        const OpId op(trace_.events.a[EventIndex(event)]);
        const double aheadMs = gpuAt(event) - times_.cpuMs[event] - issues_[op.value].cpuMs - launchMs;
        return trace_.ops.ms[op] > 0 ? std::max(0.0, aheadMs) : noTime;
    }

    const StepTrace& trace_;
    const StepIndex& index_;
    const EventTimes& times_;
    std::vector<OpIssue> issues_;
    ModulesAfter after_;
    std::vector<std::vector<PartCall>> parts_; ///< by position, by micro-batch
    CopyLimits limits_;
};

} // namespace

CopyLimits copyLimits(const StepModel& model, const EventTimes& times, const PartTree& tree, const RowProblem& rows)
{
    return LimitsBuilder(model, times, tree, rows).take();
}

void CopyLimits::setTimes(Own& times, const RowProblem& rows, const ArcOption& option,
                          const CopySchedule& schedule) const
{
    const PartArcs::Arc& arc = rows.arcs()[option.arc];
    const LocalEffect& effect = rows.effectOf(option);
    times.againMs = effect.recomputeMs > 0 ? effect.recomputeMs + idleAgain[at(arc.unit)].gapMs : 0;
    if (leads.empty())
        return;
    const CpuLead& lead = leads[option.arc];
    const double issuedMs = issueMs(effect), allMs = cpuMs(arc, effect);
    if (microBatches > 1 && lead.copiesMs < noTime) { // a later forward follows a backward
        times.idleOutMs = allMs;
        times.idleInMs = above(allMs, lead.copiesMs);
    } else {
        times.idleOutMs = above(issuedMs / microBatches, lead.forwardMs);
        if (effect.movedBytes > 0)
            times.idleOutMs
                = std::max(times.idleOutMs, lead.beginMs + lateMs(schedule.copiesOf(rows.planOf({{option, 1.0}}))));
        times.idleInMs = above(2 * issuedMs, lead.copiesMs) + above(allMs - 2 * issuedMs, lead.againMs);
    }
    for (double* const ms : {&times.idleOutMs, &times.idleInMs})
        if (*ms < leastIdleMs)
            *ms = 0;
}

CopyLimits CopyLimits::shortened(double share) const
{
    CopyLimits limits = *this;
    for (std::vector<double>* times : {&limits.forwardMs, &limits.backwardMs})
        for (double& ms : *times)
            ms *= share;
    return limits;
}

/// By how much the CPU is behind the GPU in the first forward if the CPU issues copies at these events, ascending.
double CopyLimits::lateMs(const std::vector<std::uint32_t>& copies) const
{
    double mostMs = -noTime, issuedMs = 0;
    for (const std::uint32_t event : copies) {
        issuedMs += link.issueMs;
        if (event < aheadMs.size())
            mostMs = std::max(mostMs, issuedMs - aheadMs[event]);
    }
    return mostMs;
}

OptionCopies CopyLimits::timesOf(const RowProblem& rows, const ArcOption& option) const
{
    const LocalEffect& effect = rows.effectOf(option);
    const Own& ends = (*own)[option.arc][option.option];
    OptionCopies times;
    if (effect.movedBytes > 0) {
        times.out = copyMs(link, effect);
        times.in = backMs(times.out);
    }
    times.again = ends.againMs;
    times.idleOut = ends.idleOutMs;
    times.idleIn = ends.idleInMs;
    times.tail = ends.tailMs;
    times.lead = above(ends.leadMs, times.again);
    times.moreOut = ends.moreOutMs;
    times.moreIn = ends.moreInMs;
    return times;
}

CopiesLeft CopyLimits::after(CopiesLeft copies, const PartArcs::Arc& arc, const OptionCopies& option) const
{
    const bool begins = option.moreIn > 0;
    copies.idleOutMs += option.idleOut;
    copies.idleInMs += option.idleIn;
    copies.outMs += option.out;
    copies.inMs += option.in;
    for (int position = arc.first; position < arc.last; ++position) {
        copies.outMs = above(copies.outMs, forwardMs[at(position)]);
        copies.inMs
            = above(copies.inMs, backwardMs[at(position)] + (position + 1 == arc.last && !begins ? option.again : 0));
    }
    copies.outMs = above(std::max(copies.outMs, option.tail), option.moreOut);
    copies.inMs = above(std::max(copies.inMs, option.lead), begins ? option.moreIn + option.again : 0);
    return copies;
}

double OptionCopies::mostExposedMs(const OptionCopies& than) const
{
    return above(out, than.out) + above(tail, than.tail) + above(lead, than.lead)
        + above(in - again, than.in - than.again) + above(than.moreOut, moreOut) + above(than.moreIn, moreIn)
        + above(than.idleOut, idleOut) + above(than.idleIn, idleIn);
}

std::pair<double, double> OptionCopies::mostIdleMs(const OptionCopies& with) const
{
    return {above(out, with.out) + above(with.tail, tail) + above(with.moreOut, moreOut),
            above(in - again, with.in - with.again) + above(with.lead, lead) + above(with.moreIn, moreIn)};
}

double CopiesLeft::exposedMs() const
{
    return above(outMs, idleOutMs) + above(inMs, idleInMs);
}

double CopiesLeft::mostExposedMs(const CopiesLeft& than) const
{
    return above(outMs, than.outMs) + above(inMs, than.inMs) + above(than.idleOutMs, idleOutMs)
        + above(than.idleInMs, idleInMs);
}

std::pair<double, double> CopiesLeft::mostIdleMs(const CopiesLeft& with) const
{
    return {above(outMs, with.outMs), above(inMs, with.inMs)};
}

double CopyLimits::issueMs(const LocalEffect& effect) const
{
    return link.issueMs * static_cast<double>(effect.movedStorages);
}

double CopyLimits::cpuMs(const PartArcs::Arc& arc, const LocalEffect& effect) const
{
    return 2 * issueMs(effect) + (effect.recomputeMs > 0 ? idleAgain[at(arc.unit)].cpuMs : 0);
}

} // namespace headroom
