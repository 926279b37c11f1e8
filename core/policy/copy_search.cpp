// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/chain_problem.h"
#include "core/policy/offload_copies.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <ranges>
#include <span>
#include <tuple>
#include <utility>

namespace headroom {

namespace {

constexpr double noLimit = std::numeric_limits<double>::infinity();
constexpr double unknownRoom = -noLimit;
constexpr double nsPerRegion = 300; ///< work of a plan's region in CopySchedule::find()

} // namespace

class CopySchedule::Search
{
public:
    Search(const CopySchedule& schedule, const CheckpointPlan& plan, const PlanMemory& memory, Bytes budget,
           std::span<const RecomputedParts> recomputed, std::span<const double> aheadMs)
        : link_(schedule.link_)
        , memory_(memory)
        , budget_(budget)
        , aheadMs_(aheadMs)
    {
        const std::vector<double>& gpuMs = schedule.times_->gpuMs;
        for (const CheckpointRegion& region : plan) {
            const int position = schedule.firstPositionOf(region.module);
            for (const Call& call : schedule.calls_[region.module.value]) {
                Numbered& numbered = calls_.emplace_back();
                numbered.call = &call;
                numbered.module = region.module;
                numbered.endMs = gpuMs[call.exit];
                numbered.beginMs = call.firstUnpack == StepIndex::never ? 0 : gpuMs[call.firstUnpack];
                if (!region.offload && position >= 0) {
                    numbered.position = position;
                    numbered.againMs = gpuMs[call.exit] - gpuMs[call.enter];
                }
                if (const std::vector<Copied>* const copied = call.movedBy(region))
                    numbered.copied = *copied;
            }
        }
        addRecomputation(recomputed);
        for (Numbered& numbered : calls_) {
            for (const Copied& copied : std::views::reverse(numbered.copied)) { // in the order of the copies back
                numbered.bytes += copied.bytes;
                numbered.inMs += link_.msFromHost(copied.bytes);
                numbered.latestMs = std::min(numbered.latestMs, numbered.beginMs + copied.useMs - numbered.inMs);
            }
        }
        std::ranges::sort(calls_, {}, [](const Numbered& numbered) { return numbered.call->enter; });
    }

    double run(CheckpointPlan& plan)
    {
        sendAway();
        bringBack();
        std::map<ModuleId, Offload> found;
        for (const Numbered& numbered : calls_) {
            if (numbered.bytes == 0)
                continue;
            const Offload when{numbered.wait, numbered.ahead, true, numbered.prefetch, numbered.afterUnpacks};
            const auto [known, added] = found.emplace(numbered.module, when);
            if (std::tuple(when.ahead, -when.afterUnpacks)
                < std::tuple(known->second.ahead, -known->second.afterUnpacks)) {
                known->second.ahead = when.ahead; // the later begin
                known->second.afterUnpacks = when.afterUnpacks;
            }
            for (int Offload::*const number : {&Offload::wait, &Offload::prefetch})
                known->second.*number = std::min(known->second.*number, when.*number);
        }
        for (CheckpointRegion& region : plan)
            if (const auto when = found.find(region.module); when != found.end()) {
                Offload& own = region.offload ? *region.offload : region.hosted->when;
                own = when->second;
                if (own.ahead == 0)
                    own.prefetch = Offload::all;
            }
        return exposedMs_;
    }

private:
    struct Numbered
    {
        const Call* call = nullptr;
        ModuleId module;
        std::span<const Copied> copied; ///< what moves
        int position = -1; ///< of the first part of a checkpointed call
        double againMs = 0; ///< time of recomputation
        double endMs = 0, beginMs = 0; ///< of the forward, and of the backward, without waits for copies
        double inMs = 0; ///< time of the copies back
        double latestMs = noLimit; ///< latest begin of the copies back that no op waits for
        Bytes bytes = 0;
        int wait = 0, ahead = 0, prefetch = Offload::all, afterUnpacks = 0;
        double earlyMs = 0; ///< begin of the copies back, without waits for copies
        std::size_t firstRoom = 0; ///< of the call's moments, in room_
    };

    /// Delays each backward by the recomputation of the calls whose backward begins before. Calls in the same parts
    /// share the time of recomputation like the time of their forward.
    void addRecomputation(std::span<const RecomputedParts> recomputed)
    {
        std::vector<std::size_t> partsAt; // by position: index in `recomputed`
        for (std::size_t parts = 0; parts < recomputed.size(); ++parts)
            partsAt.resize(static_cast<std::size_t>(recomputed[parts].last), parts);
        std::vector<double> forwardMs(recomputed.size(), 0);
        for (const Numbered& call : calls_)
            if (call.position >= 0)
                forwardMs[partsAt[static_cast<std::size_t>(call.position)]] += call.againMs;
        for (Numbered& call : calls_)
            if (call.againMs > 0) {
                const std::size_t parts = partsAt[static_cast<std::size_t>(call.position)];
                call.againMs *= recomputed[parts].ms / forwardMs[parts];
            }
        std::ranges::sort(calls_, {}, [](const Numbered& call) { return call.call->firstUnpack; });
        double againMs = 0;
        for (Numbered& call : calls_) {
            call.beginMs += againMs;
            againMs += call.againMs;
        }
    }

    /// Bytes that are left at all events of a stretch.
    double leftIn(std::uint32_t begin, std::uint32_t end) const
    {
        return static_cast<double>(begin >= end ? budget_ : budget_ - memory_.highestIn(begin, end));
    }

    /// Follows the copies to the host from call to call. The device waits for a copy only where memory, or the backward
    /// of the tensors' call, leaves no time.
    void sendAway()
    {
        std::deque<std::pair<std::size_t, double>> here; // number of the call, end of the copy
        double bytes = 0, streamMs = 0, issuedMs = 0;
        double delayMs = 0; // of the device, by waits for copies and for the CPU, which issues the copies
        for (std::size_t number = 0; number < calls_.size(); ++number) {
            const Numbered& own = calls_[number];
            if (own.bytes > 0) {
                for (const Copied& copied : own.copied) {
                    issuedMs += link_.issueMs;
                    if (copied.pack < aheadMs_.size())
                        delayMs = std::max(delayMs, issuedMs - aheadMs_[copied.pack]);
                    streamMs = std::max(streamMs, own.endMs - copied.packMs + delayMs) + link_.msToHost(copied.bytes);
                }
                here.emplace_back(number, streamMs);
                bytes += static_cast<double>(own.bytes);
            }
            if (here.empty())
                continue;
            const bool isLast = number + 1 == calls_.size();
            const std::uint32_t next = isLast ? StepIndex::never : calls_[number + 1].call->exit;
            const double most = isLast ? 0 : leftIn(own.call->exit + 1, next + 1);
            while (!here.empty()) {
                const auto [first, endMs] = here.front();
                Numbered& leaving = calls_[first];
                if (endMs > own.endMs + delayMs) {
                    if (bytes <= most && leaving.call->firstUnpack > next)
                        break;
                    exposedMs_ += endMs - own.endMs - delayMs;
                    delayMs = endMs - own.endMs;
                }
                leaving.wait = static_cast<int>(number - first);
                bytes -= static_cast<double>(leaving.bytes);
                here.pop_front();
            }
        }
    }

    /// From the end of the backward on: finds for each call the latest begin of the copies back that hides the copies.
    /// As many storages come early as the memory allows.
    void bringBack()
    {
        std::vector<std::size_t> order;
        for (std::size_t number = 0; number < calls_.size(); ++number)
            if (calls_[number].bytes > 0 && calls_[number].call->firstUnpack != StepIndex::never)
                order.push_back(number);
        std::ranges::sort(order, std::ranges::greater(), [this](std::size_t number) { return unpackOf(number); });
        std::size_t moments = 0;
        for (Numbered& call : calls_) {
            call.firstRoom = moments;
            moments += call.call->moments.size();
        }
        room_.assign(moments, unknownRoom);
        double nextMs = noLimit; // the copies of the call after begin
        for (const std::size_t number : order) {
            Numbered& own = calls_[number];
            const double latest = std::min(own.latestMs, nextMs - own.inMs);
            Early early = earlyOf(number, latest, nextMs, false);
            if (early.lateMs > 0)
                early = earlyOf(number, latest, nextMs, true);
            for (std::size_t call = number + 1; call <= early.call; ++call)
                for (std::size_t moment = call == early.call ? early.moment : 0;
                     moment < calls_[call].call->moments.size(); ++moment)
                    room_[calls_[call].firstRoom + moment] -= early.bytes;
            own.prefetch = early.storages;
            own.ahead = static_cast<int>(early.call - number);
            own.afterUnpacks = own.ahead > 0 ? calls_[early.call].call->moments[early.moment].afterUnpacks : 0;
            own.earlyMs = early.beginMs;
            nextMs = std::max(latest, own.earlyMs);
        }
        clockBack(order);
    }

    std::uint32_t unpackOf(std::size_t call) const { return calls_[call].call->firstUnpack; }

    /// Bytes that may be back early from a moment of a call's backward until the next moment, or the next backward.
    double& roomAt(std::size_t call, std::size_t moment)
    {
        const std::vector<Moment>& moments = calls_[call].call->moments;
        double& room = room_[calls_[call].firstRoom + moment];
        if (room == unknownRoom) {
            const std::uint32_t next = moment + 1 < moments.size() ? moments[moment + 1].event : StepIndex::never;
            room = std::max(0.0, leftIn(moments[moment].event, std::min(next, unpackOf(call - 1))));
        }
        return room;
    }

    /// The begin of a call's copies back: with the call's own backward, or in the backward of a later call.
    struct Early
    {
        std::size_t call = 0, moment = 0;
        int storages = Offload::all;
        double bytes = 0;
        double beginMs = 0;
        double lateMs = 0; ///< time after the latest begin that hides the copies
    };
    /// The latest begin that hides the copies, as far as the memory allows. `isFine`: at any moment, else only where a
    /// backward begins.
    Early earlyOf(std::size_t number, double latest, double nextMs, bool isFine)
    {
        const Numbered& own = calls_[number];
        Early best{number, 0, Offload::all, 0, own.beginMs, own.beginMs - latest};
        double fits = noLimit; // bytes
        for (std::size_t call = number + 1;
             best.lateMs > 0 && call < calls_.size() && unpackOf(call) < unpackOf(call - 1); ++call) {
            const std::vector<Moment>& moments = calls_[call].call->moments;
            for (std::size_t moment = moments.size(); best.lateMs > 0 && moment-- > 0;) {
                if (moments[moment].event >= unpackOf(call - 1)) // the backwards of the calls overlap
                    continue;
                fits = std::min(fits, roomAt(call, moment));
                const auto [storages, bytes] = firstWithin(own, fits);
                if (storages == 0)
                    return best;
                if (moment > 0 && !isFine)
                    continue;
                const double beginMs
                    = calls_[call].beginMs + moments[moment].ms + (moment > 0 ? calls_[call].againMs : 0);
                const double lateMs
                    = storages == Offload::all ? beginMs - latest : delayMs(own, beginMs, storages, nextMs);
                if (lateMs < best.lateMs)
                    best = {call, moment, storages, bytes, beginMs, lateMs};
            }
        }
        return best;
    }

    /// The storages of a call that come back first, of up to `most` bytes in sum. Returns the number, Offload::all for
    /// all, and the bytes.
    static std::pair<int, double> firstWithin(const Numbered& own, double most)
    {
        if (static_cast<double>(own.bytes) <= most)
            return {Offload::all, static_cast<double>(own.bytes)};
        int storages = 0;
        double bytes = 0;
        for (const Copied& copied : std::views::reverse(own.copied)) {
            if (bytes + static_cast<double>(copied.bytes) > most)
                break;
            bytes += static_cast<double>(copied.bytes);
            ++storages;
        }
        return {storages, bytes};
    }

    /// By how much the copies back of a call are late if the first `prefetch` begin at `beginMs`, and the others with
    /// the call's own backward. All should be made by `endMs`.
    double delayMs(const Numbered& own, double beginMs, int prefetch, double endMs) const
    {
        double streamMs = beginMs, mostMs = -noLimit;
        for (const Copied& copied : std::views::reverse(own.copied)) {
            if (prefetch-- == 0)
                streamMs = std::max(streamMs, own.beginMs);
            streamMs += link_.msFromHost(copied.bytes);
            mostMs = std::max(mostMs, streamMs - own.beginMs - copied.useMs);
        }
        return std::max(mostMs, streamMs - endMs);
    }

    /// The time that the device waits for copies back.
    void clockBack(std::vector<std::size_t>& order)
    {
        std::ranges::reverse(order); // in the order of the backward
        double streamMs = 0, waited = 0;
        for (const std::size_t number : order) {
            const Numbered& own = calls_[number];
            streamMs = std::max(streamMs, own.earlyMs + waited);
            int prefetch = own.prefetch;
            for (const Copied& copied : std::views::reverse(own.copied)) {
                if (prefetch-- == 0)
                    streamMs = std::max(streamMs, own.beginMs + waited);
                streamMs += link_.msFromHost(copied.bytes);
                if (const double late = streamMs - (own.beginMs + copied.useMs + waited); late > 0) {
                    waited += late;
                    exposedMs_ += late;
                }
            }
        }
    }

    HostLink link_;
    const PlanMemory& memory_;
    Bytes budget_;
    std::span<const double> aheadMs_;
    std::vector<Numbered> calls_;
    std::vector<double> room_; ///< by moment: bytes that may be back early until the next moment
    double exposedMs_ = 0;
};

CopySchedule::Found CopySchedule::find(CheckpointPlan plan, const PlanMemory& memory, Bytes budget,
                                       std::span<const RecomputedParts> recomputed,
                                       std::span<const double> aheadMs) const
{
    Found found{withCounted(std::move(plan)), 0};
    SearchLimit::count(static_cast<double>(found.plan.size()), nsPerRegion);
    found.exposedMs = Search(*this, found.plan, memory, budget, recomputed, aheadMs).run(found.plan);
    return found;
}

} // namespace headroom
