// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/step_model.h"
#include "core/predict/storage_events.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace headroom {

/// What a plan changes in one part of a step, at each of the part's events (LocalReplay::changeAt()): bytes more (or,
/// mostly, less) than the recorded step has after that event.
struct LocalEffect
{
    struct Change
    {
        Bytes high = 0; ///< at most, while the event happens: a recomputation happens inside one unpack
        Bytes after = 0; ///< and until the next event of the part
    };
    std::vector<Change> changes;
    double recomputeMs = 0;
};

/// Notes of replays of the parts of one step. A caller that asks many parts for many plans keeps one object, so that
/// the cost of an answer follows the size of the part, not of the step. For one thread at a time.
class LocalNotes
{
public:
    LocalNotes();
    ~LocalNotes();
    LocalNotes(const LocalNotes&) = delete;
    LocalNotes& operator=(const LocalNotes&) = delete;

private:
    friend class LocalReplay;
    struct Content;
    std::unique_ptr<Content> content_;
};

/// Predicts plans for one part of a step, a module with all that is inside it: replays only the events of the storages
/// that checkpointing there can concern. A plan of a layer costs as much in a model of a hundred layers as in a model
/// of one, and the memory of a step under a plan is that of the recorded step and the effects of its parts, as long as
/// no two parts concern the same storage.
///
/// `shared` storages (by StorageId) are left out: several parts hold them as arguments, and the caller, which puts the
/// parts together, counts them once. Immutable; any thread may ask.
class LocalReplay
{
public:
    LocalReplay(const StepModel& model, const StorageEvents& events, ModuleId part, const std::vector<bool>& shared,
                LocalNotes& notes);

    /// Ascending. What the program lets go of at once, nothing else happening in between, is one event, the last:
    /// memory only falls there, and the order is that of a hash table where autocast's cache goes.
    std::span<const std::uint32_t> events() const { return events_; }

    /// Effects have so many changes, and the event of this index is that of a change: the calls of a part that runs
    /// once in each micro-batch do the same to memory one after another, so that only the first is replayed.
    std::size_t changes() const { return replayed_.events.size(); }
    std::int32_t changeAt(std::size_t event) const { return static_cast<std::int32_t>(event % changes()); }

    /// The regions are the part or inside it.
    Result<LocalEffect> of(const CheckpointPlan& plan, LocalNotes& notes) const;

    /// What plans of a module inside the part can concern of what is replayed; ascending.
    std::vector<StorageId> storagesOf(ModuleId module) const;

    /// Equal for two parts whose plans have equal effects, event by event, module by module (counted from the part).
    const std::vector<std::uint64_t>& signature() const { return signature_; }

private:
    /// What checkpointing in some calls of the part can concern.
    struct Scope
    {
        std::vector<CallId> calls;
        std::vector<StorageId> storages; ///< ascending
        std::vector<std::uint32_t> steps; ///< events of the trace to replay
        std::vector<std::uint32_t> events;
        std::vector<std::size_t> ends; ///< by event: the steps up to and with it
    };
    Scope scopeOf(std::vector<CallId> calls, const StorageEvents& events, const std::vector<bool>& shared) const;
    std::vector<StorageId> storagesOf(std::span<const CallId> calls) const;
    std::vector<StorageId> castsInBackward() const;
    void findSteps(Scope& scope, const StorageEvents& events) const;
    void findEvents(Scope& scope) const;
    std::vector<Bytes> record(const Scope& scope, LocalNotes& notes) const;
    std::vector<std::uint64_t> sign(const Scope& scope) const;
    bool releasesAll(const Scope& scope) const;
    void foldEqualCalls(const StorageEvents& events, const std::vector<bool>& shared, LocalNotes& notes);

    StepModel model_;
    ModuleId part_;
    Scope replayed_;
    std::size_t repeats_ = 1; ///< calls like the one that is replayed
    std::vector<std::uint32_t> events_;
    std::vector<Bytes> recorded_; ///< of these storages alone: alive after each event that is replayed
    std::vector<std::uint64_t> signature_;
};

} // namespace headroom
