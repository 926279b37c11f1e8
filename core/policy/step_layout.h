// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/local_replay.h"
#include "core/predict/step_model.h"

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace headroom {

/// What one part of a step does to memory in one way of checkpointing it.
struct PartMemory
{
    Bytes held = 0; ///< change of what is held when forward has become backward
    Bytes high = 0; ///< highest memory of the step while the part runs, forward or backward, all else as recorded
};

/// Where some ways of checkpointing a part change memory in another way than PartMemory says, although the part does
/// not run: than by `held` while parts after it do, than by nothing while parts before it do.
struct PartDeviations
{
    struct Stretch
    {
        std::uint32_t begin = 0; ///< events
        std::uint32_t end = 0;
        Bytes bytes = 0; ///< of the way that deviates most
    };
    std::vector<Stretch> more;
    std::vector<Stretch> less;
};

/// A recorded step as a chain of parts: which stretch of events belongs to which part, and the memory there. Forward,
/// part after part, then (from the exit of the last) what no part runs in, then backward from the first tensor that a
/// part's backward asks for. With a world size above 1 memory is that of one rank.
class StepLayout
{
public:
    /// Arguments that several parts have (masks, tables of positions): checkpointed parts hold them until the backward
    /// of the first ends, once for all, so that parts leave them out and they count as memory of the step; or no part
    /// that has them may be checkpointed, and they are as recorded.
    enum class SharedArguments {
        held,
        heldAtLeast, ///< as `held`, but for no longer than every part that has them would hold them
        asRecorded
    };

    /// Parts in the order in which they first run. `events` must outlive the layout.
    /// `turn`: the event that stands for the time between forward and backward, where memory is highest by itself.
    StepLayout(const StepModel& model, const StorageEvents& events, std::vector<ModuleId> parts, int worldSize,
               SharedArguments sharedArguments, std::optional<std::uint32_t> turn = {});

    const std::vector<bool>& shared() const { return shared_; } ///< by StorageId: such arguments
    bool hasShared(ModuleId module) const; ///< among the arguments of the module

    /// Where forward has become backward: the moment for which PartMemory::held is meant.
    Bytes atTurn() const { return turn_ < after_.size() ? after_[turn_] : highestOf(-1); }
    Bytes before() const { return highestOf(-1); }

    /// Where memory is highest between forward and backward with so much more at each event.
    std::uint32_t turnWith(const std::vector<Bytes>& more) const;
    std::uint32_t turn() const { return turn_; }

    /// Where one part, or a module around parts first .. last - 1, runs, cut at the events of its replay.
    class Place
    {
    public:
        PartMemory of(const LocalEffect& effect) const;

        /// The same for effects between two: without the times when none of them can take most.
        Place between(const LocalEffect& least, const LocalEffect& most) const;
        PartDeviations deviations(std::span<const LocalEffect* const> effects) const;

    private:
        friend class StepLayout;
        enum class Where : std::uint8_t { own, above, below };

        /// What the part has changed at some time.
        struct Moment
        {
            std::int32_t change = -1; ///< of the effect; -1: nothing yet
            bool atEvent = false; ///< while the change happens, or after it
            Bytes in(const LocalEffect& effect) const;
            auto operator<=>(const Moment&) const = default;
        };
        struct OtherStretch
        {
            std::uint32_t begin = 0, end = 0; ///< events
            std::size_t moment = 0; ///< index in otherMoments_
        };
        void addOwn(Moment moment, Bytes high);
        void addOther(Moment moment, Where where, std::uint32_t begin, std::uint32_t end);

        /// Highest memory recorded while the part runs.
        struct OwnTime
        {
            std::size_t change = 0;
            Bytes at = 0; ///< while the change happens
            Bytes after = 0; ///< until the next one
        };
        Moment turn_; ///< of the step
        Bytes least_ = 0; ///< no effect takes less
        std::vector<OwnTime> own_;
        std::vector<OtherStretch> others_; ///< where the part does not run
        std::vector<std::pair<Moment, Where>> otherMoments_;
        std::map<std::pair<Moment, Where>, std::size_t> numbers_; ///< of otherMoments_
    };
    Place place(const LocalReplay& replay, ModuleId module, int first, int last) const;

    /// The same step with so much more memory at each event.
    StepLayout raised(const std::vector<Bytes>& bytes) const;

private:
    struct Stretch
    {
        std::uint32_t begin = 0; ///< event
        std::uint32_t end = 0;
        int owner = -1; ///< part; -1: before all of them; their number: between forward and backward
    };
    /// A stretch of events as one part, or a module around several, sees it.
    struct Zone
    {
        std::uint32_t begin = 0;
        std::uint32_t end = 0;
        Place::Where where = Place::Where::own;
        bool before = false; ///< all parts
    };
    void findShared();
    void measure(int worldSize);
    void holdShared(SharedArguments sharedArguments);
    void hold(StorageId storage, std::uint32_t begin, std::uint32_t end);
    void findOwners();
    Bytes highestOf(int owner) const;
    std::uint32_t firstUnpack(const StepIndex::Call& call) const;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> windowsOf(ModuleId module, int first, int last) const;
    std::vector<Zone> zonesOf(ModuleId module, int first, int last) const;
    Bytes highest(std::uint32_t begin, std::uint32_t end) const;

    StepModel model_;
    const StorageEvents* events_;
    std::vector<ModuleId> parts_;
    std::vector<bool> shared_;
    std::vector<Bytes> high_; ///< by event: highest memory while it happens
    std::vector<Bytes> after_; ///< by event
    std::vector<Stretch> stretches_;
    std::uint32_t turn_ = StepIndex::never; ///< event
};

} // namespace headroom
