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

/// The memory of a part of a step for a checkpointing option.
struct PartMemory
{
    Bytes held = 0; ///< bytes held at the boundary of forward and backward, minus the recorded bytes
    Bytes high = 0; ///< highest memory of the step while the part runs, all else as recorded
};

/// Events at which PartMemory is not exact, while the part does not run. By PartMemory, memory changes by `held` while
/// later parts run, and not at all while earlier parts run.
struct PartDeviations
{
    struct Stretch
    {
        std::uint32_t begin = 0; ///< events
        std::uint32_t end = 0;
        Bytes bytes = 0; ///< largest deviation of any option
    };
    std::vector<Stretch> more;
    std::vector<Stretch> less;
};

/// A recorded step as a chain of parts: the ranges of events of each part, and the memory there. Forward is part after
/// part. The time between forward and backward begins at the exit of the last part. A part's backward begins at the
/// first unpack of a tensor that the part packed. With a world size above 1, memory is the memory of a single rank.
class StepLayout
{
public:
    /// The way to count shared arguments: tensors that are arguments of several parts (masks, position tables). `held`:
    /// checkpointed parts hold shared arguments until the backward of the first part ends; shared arguments count once,
    /// as memory of the step and not of a part. `asRecorded`: no part with a shared argument may be checkpointed.
    enum class SharedArguments {
        held,
        heldAtLeast, ///< like `held`, but only while every part with the argument would hold the argument
        asRecorded
    };

    /// `parts` are in the order of first runs. `events` must outlive the layout. `boundary` is the event that stands
    /// for the time between forward and backward; by default the event of highest memory.
    StepLayout(const StepModel& model, const StorageEvents& events, std::vector<ModuleId> parts, int worldSize,
               SharedArguments sharedArguments, std::optional<std::uint32_t> boundary = {});

    const std::vector<bool>& shared() const { return shared_; } ///< by StorageId: argument of several parts
    /// By StorageId: argument of several parts, also of others than first to last - 1. What these parts alone share is
    /// no argument of a module around them.
    std::vector<bool> sharedBeyond(int first, int last) const;
    /// By StorageId, of shared arguments: where the recording has the storage freed, between the forwards and the
    /// backwards of all parts with the argument. A checkpoint in any of these parts holds the argument there.
    std::vector<std::vector<PartDeviations::Stretch>> heldBetween() const;
    bool hasShared(ModuleId module) const; ///< whether an argument of the module is shared

    /// Live bytes at the boundary of forward and backward, the reference of PartMemory::held, and the highest before
    /// all parts.
    Bytes atBoundary() const { return boundary_ < after_.size() ? after_[boundary_] : highestOf(-1); }
    Bytes before() const { return highestOf(-1); }

    /// The event of highest memory between forward and backward, if each event has `more` bytes added.
    std::uint32_t boundaryWith(const std::vector<Bytes>& more) const;
    std::uint32_t boundary() const { return boundary_; }
    /// The event of highest memory between a module's own forward and backward; boundary() if no such event exists.
    std::uint32_t boundaryOf(ModuleId module) const;

    /// Live bytes by event: the highest during the event, and after the event.
    std::span<const Bytes> high() const { return high_; }
    std::span<const Bytes> after() const { return after_; }

    /// The events at which a part, or a module around parts first to last - 1, runs, divided at the events of the
    /// replay.
    class PartEvents
    {
    public:
        PartMemory of(const LocalEffect& effect) const;

        /// A PartEvents for effects between `least` and `most`, without the times that cannot be the highest for any
        /// such effect.
        PartEvents between(const LocalEffect& least, const LocalEffect& most) const;
        /// The largest deviations of all `effects` from PartMemory.
        PartDeviations deviations(std::span<const LocalEffect> effects) const;

    private:
        friend class StepLayout;
        enum class Where : std::uint8_t { own, above, below };

        /// How far the part's replay has come at some time.
        struct Moment
        {
            std::int32_t change = -1; ///< index in the effect; -1: no change yet
            bool atEvent = false; ///< true: while the change happens; false: after the change
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

        /// Highest recorded memory around a change while the part runs.
        struct OwnTime
        {
            std::size_t change = 0;
            Bytes at = 0; ///< while the change happens
            Bytes after = 0; ///< until the next change
        };
        Moment boundary_; ///< the moment of the step's boundary
        Bytes least_ = 0; ///< lower bound of PartMemory::high for every effect
        std::vector<OwnTime> own_;
        std::vector<OtherStretch> others_; ///< stretches without the part running
        std::vector<std::pair<Moment, Where>> otherMoments_;
        std::map<std::pair<Moment, Where>, std::size_t> numbers_; ///< indices in otherMoments_
    };
    PartEvents partEvents(const LocalReplay& replay, ModuleId module, int first, int last) const
    {
        return partEvents(replay, module, first, last, boundary_);
    }
    /// The same with another event between forward and backward.
    PartEvents partEvents(const LocalReplay& replay, ModuleId module, int first, int last,
                          std::uint32_t boundary) const;

    /// The same step with `bytes` added at each event.
    StepLayout raised(const std::vector<Bytes>& bytes) const;

private:
    struct Stretch
    {
        std::uint32_t begin = 0; ///< event
        std::uint32_t end = 0;
        int owner = -1; ///< part; -1: before all parts; number of parts: between forward and backward
    };
    /// A stretch of events relative to a part, or to a module around several parts.
    struct Zone
    {
        std::uint32_t begin = 0;
        std::uint32_t end = 0;
        PartEvents::Where where = PartEvents::Where::own;
        bool before = false; ///< before all parts
    };
    void findShared();
    void measure(int worldSize);
    struct Span
    {
        std::uint32_t begin = 0, end = 0; ///< events
    };
    void holdShared(SharedArguments sharedArguments);
    template <class SpanOf>
    std::vector<std::vector<PartDeviations::Stretch>> held(const SpanOf& spanOf, bool byAll) const;
    std::vector<PartDeviations::Stretch> freedIn(StorageId storage, std::uint32_t begin, std::uint32_t end) const;
    void findOwners();
    Bytes highestOf(int owner) const;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> windowsOf(ModuleId module, int first, int last) const;
    std::vector<Zone> zonesOf(ModuleId module, int first, int last) const;
    Bytes highest(std::uint32_t begin, std::uint32_t end) const;

    StepModel model_;
    const StorageEvents* events_;
    std::vector<ModuleId> parts_;
    std::vector<bool> shared_;
    std::vector<std::pair<int, int>> holders_; ///< by StorageId, of shared arguments: the first and the last part
    std::vector<Bytes> high_; ///< by event: highest memory during the event
    std::vector<Bytes> after_; ///< by event
    std::vector<Stretch> stretches_;
    std::uint32_t boundary_ = StepIndex::never; ///< event
};

} // namespace headroom
