// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <boost/container_hash/hash.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headroom {

/// The free pieces of the allocator's memory when an allocation fails.
struct FreePieces
{
    static constexpr std::size_t kept = 8; ///< pieces of `largest` that the step keeps
    struct Piece
    {
        Bytes bytes = 0;
        StorageId beside = {}; ///< as in StepTrace::FreePieces
    };
    std::uint32_t count = 0;
    std::vector<Piece> largest; ///< in descending order
};

/// Builds a StepTrace from events in order, for the recorder, importers and hand-made steps of tests. A single thread
/// at a time may call the functions.
class StepTraceBuilder
{
public:
    StepTraceBuilder();

    StepInfo info;

    StringId string(std::string_view text); ///< returns the same id for the same text

    ModuleId addModule(std::string_view fqn, std::string_view type, ModuleId parent);
    void addRegistered(ModuleId module, std::string_view name, StorageId storage, Category category);

    CallId enter(ModuleId module, std::span<const StorageId> arguments); ///< adds the event
    void addArgument(CallId call, StorageId storage); ///< adds an argument after enter()
    void exit(CallId call, std::span<const StorageId> results); ///< adds the event

    /// Returns the row of a frame that `caller` called (invalid: the outermost frame), the same for the same values.
    FrameId frame(FrameId caller, std::string_view file, std::string_view function, std::uint32_t line);

    struct Op
    {
        StringId name;
        StringId node;
        ModuleId module;
        CallId call;
        OpId forwardOp;
        Phase phase = Phase::forward;
        FrameId frame = {};
    };
    struct OpResult
    {
        DType dtype = DType::other;
        std::uint16_t flags = 0;
        Bytes bytes = 0;
        double flops = 0;
        double ms = 0;
        std::span<const StorageId> inputs = {};
        std::span<const StorageId> outputs = {};
        std::span<const StorageId> mutated = {};
        std::span<const std::int64_t> signature = {}; ///< empty: not known
    };
    OpId beginOp(const Op& op); ///< adds opBegin; ops do not nest
    void endOp(OpId op, const OpResult& result); ///< adds opEnd
    /// Adds a failed allocation and begins an op.
    OpId outOfMemory(Op where, Bytes requested, Bytes deviceFree, const FreePieces& pieces = {});
    void setStream(OpId op, std::uint32_t stream); ///< sets the stream of the op's kernels, which is 0 otherwise
    /// Returns the same id for the same name.
    GroupId group(std::string_view name, std::span<const std::uint32_t> ranks);

    struct Collective
    {
        CollectiveKind kind = CollectiveKind::allReduce;
        Bytes bytes = 0; ///< counted as in StepTrace::Collectives
        GroupId group = {};
        std::uint32_t peer = StepTrace::Collectives::noPeer;
        bool async = false;
    };
    void collective(OpId op, const Collective& collective); ///< `op` must be the op that began last
    /// Adds a stream event before the op `before`, or before the next op if `before` is invalid.
    void streamEvent(StreamEventKind kind, std::uint32_t stream, std::uint32_t event, OpId before = {});
    void use(StorageId storage, std::uint32_t stream) { streamEvent(StreamEventKind::use, stream, storage.value); }
    void measured(OpId op, double ms); ///< replaces the time of an op that has ended

    StorageId alloc(Bytes requested, Category category, OpId creator); ///< rounds the size; adds the event
    void setStream(StorageId storage, std::uint32_t stream); ///< sets the stream of the block, which is 0 otherwise
    void setFrame(StorageId storage, FrameId frame); ///< sets the frame that allocated the storage
    void setReserved(Bytes bytes); ///< sets the bytes that the device's allocator has reserved from the next event on
    void free(StorageId storage) { event(EventKind::free, storage.value); }
    /// `stream` is the stream of the new block; nullopt: the stream of the storage's allocation.
    void resize(StorageId storage, Bytes requested, std::optional<std::uint32_t> stream = {});
    void retype(StorageId storage, Category category);

    PackId pack(StorageId storage, OpId op); ///< `storage` is invalid for a tensor that is not on the device
    /// Autograd saved a leaf whose data the program has replaced: the pack, not released yet, has held no storage.
    void holdNoStorage(PackId pack) { tables_.packs.storage.rows[pack.value] = {}; }
    void unpack(PackId pack, std::uint32_t pass = 0) { event(EventKind::unpack, pack.value, pass); }
    void unpackEnd(PackId pack) { event(EventKind::unpackEnd, pack.value); }
    void release(PackId pack) { event(EventKind::release, pack.value); }

    void backwardEnter(CallId call) { event(EventKind::backwardEnter, call.value); }
    void backwardExit(CallId call) { event(EventKind::backwardExit, call.value); }
    void mark(Mark mark) { event(EventKind::mark, static_cast<std::uint32_t>(mark)); }

    using Outside = StepTables<OwnRows>::Outside;
    /// Sets the changes of memory outside of steps.
    void setOutside(Outside beforeTraining, Outside betweenSteps)
    {
        tables_.beforeTraining = std::move(beforeTraining);
        tables_.betweenSteps = std::move(betweenSteps);
    }

    std::size_t opCount() const noexcept { return tables_.ops.size(); }
    std::size_t storageCount() const noexcept { return tables_.storages.size(); }
    /// Returns the current category of a storage, after its retype events.
    Category categoryOf(StorageId storage) const { return categoryNow_.at(storage.value); }

    /// Returns the validated step and leaves the builder empty. Errors (internal): events do not nest. Calls and an op
    /// that are still open, as after an exception, end with the step.
    Result<StepTracePtr> finish();

private:
    void event(EventKind kind, std::uint32_t a, std::uint32_t b = 0);
    void addResult(const OpResult& result);
    /// Keeps the first misuse for the error of finish(), since a recorder cannot stop inside an op.
    void misuse(std::string_view what);
    SignatureId signature(std::span<const std::int64_t> values); ///< returns the same id for the same values

    StepTables<OwnRows> tables_;
    std::vector<std::vector<StorageId>> callArguments_, callResults_; ///< by call; finish() makes the columns
    std::unordered_map<std::string, StringId> strings_;
    std::unordered_multimap<std::size_t, SignatureId> signatures_; ///< by hash
    using FrameKey = std::tuple<FrameId, StringId, StringId, std::uint32_t>; ///< the columns of StepTrace::Frames
    std::unordered_map<FrameKey, FrameId, boost::hash<FrameKey>> frames_;
    std::vector<CallId> openCalls_;
    OpId openOp_;
    std::string misuse_;
    std::vector<Category> categoryNow_;
};

} // namespace headroom
