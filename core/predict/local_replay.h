// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/live_memory.h"
#include "core/predict/step_model.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace headroom {

/// The change that a plan makes in a part of a step: for each of the part's events (LocalReplay::changeAt()), live
/// bytes under the plan minus live bytes of the recorded step. Mostly negative.
struct LocalEffect
{
    struct Change
    {
        Bytes high = 0; ///< highest difference while the event happens (a recomputation runs inside an unpack)
        Bytes after = 0; ///< difference from then until the part's next event
    };
    std::vector<Change> changes;
    double recomputeMs = 0;
    Bytes movedBytes = 0; ///< to the host, as many come back
    std::int64_t movedStorages = 0;
    Bytes pinned = 0; ///< sum of pinnedBytes() of the storages, of one call if equal calls follow in sequence
};

/// Scratch memory for LocalReplay, for all parts of a step. A caller keeps the same object for many calls, so that the
/// time of a call depends on the size of the part, not of the step. For a single thread at a time.
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

/// Predicts plans for a part of a step: a module and its submodules. Replays only the events of storages that
/// checkpointing in the part can affect, so that the time for a layer does not depend on the number of layers. Memory
/// of a step under a plan is the memory of the recorded step plus the effects of the parts, if no two parts affect the
/// same storage.
///
/// Storages in `shared` (by StorageId) are left out: several parts hold such storages as arguments, and the caller
/// counts each storage once when adding up the parts. Immutable: any thread may call the functions with its own
/// LocalNotes.
class LocalReplay
{
public:
    LocalReplay(const StepModel& model, const StorageEvents& events, ModuleId part, const std::vector<bool>& shared,
                LocalNotes& notes);

    /// Events of the trace, ascending. A run of frees with nothing in between counts as a single event, the last of the
    /// run: memory only falls there. When autocast's cache is emptied, the order of the frees comes from a hash table.
    std::span<const std::uint32_t> events() const { return events_; }

    /// Number of changes in an effect, and the index of the change of an event. A part with a call in each micro-batch
    /// does the same to memory in every call, so that only the first call is replayed.
    std::size_t changes() const { return replayed_.events.size(); }
    std::int32_t changeAt(std::size_t event) const { return static_cast<std::int32_t>(event % changes()); }

    /// The effect of a plan; each region is the part itself or a module inside it. Error: as predict().
    Result<LocalEffect> of(const CheckpointPlan& plan, LocalNotes& notes) const;

    /// The replayed storages that a plan of `module` can affect; ascending. `module` is inside the part.
    std::vector<StorageId> storagesOf(ModuleId module) const;

    /// Equal for two parts only if equal plans (modules numbered from the part) have equal effects, event by event.
    const std::vector<std::uint64_t>& signature() const { return signature_; }

private:
    /// The storages and events that checkpointing in some calls of the part can affect.
    struct Scope
    {
        std::vector<CallId> calls;
        std::vector<StorageId> storages; ///< ascending
        std::vector<std::uint32_t> steps; ///< events of the trace to replay
        std::vector<std::uint32_t> events;
        std::vector<std::size_t> ends; ///< by event: number of steps up to and including the event
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
    std::size_t repeats_ = 1; ///< number of calls that are equal to the replayed call
    std::vector<std::uint32_t> events_;
    std::vector<Bytes> recorded_; ///< by replayed event: live bytes of the storages after the event, without a plan
    std::vector<std::uint64_t> signature_;
};

} // namespace headroom
