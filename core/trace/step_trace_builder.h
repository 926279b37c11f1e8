// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headroom {

/// Builds a StepTrace from events in their order, for the recorder, importers and hand-made steps of tests. One thread
/// at a time may call it.
class StepTraceBuilder
{
public:
    StepInfo info;

    StringId string(std::string_view text); ///< returns the same id for the same text

    ModuleId addModule(std::string_view fqn, std::string_view type, ModuleId parent);
    void addRegistered(ModuleId module, std::string_view name, StorageId storage, Category category);

    CallId enter(ModuleId module, std::span<const StorageId> arguments); ///< adds the event
    void addArgument(CallId call, StorageId storage); ///< adds an argument after enter()
    void exit(CallId call, std::span<const StorageId> results); ///< adds the event

    struct Op
    {
        StringId name;
        StringId node;
        ModuleId module;
        CallId call;
        OpId forwardOp;
        Phase phase = Phase::forward;
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
    OpId outOfMemory(Op where, Bytes requested, Bytes deviceFree); ///< adds a failed allocation and begins its op
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
    void setReserved(Bytes bytes); ///< sets the bytes that the device's allocator has reserved from the next event on
    void free(StorageId storage) { event(EventKind::free, storage.value); }
    /// `stream` is that of the new block; nullopt: the stream of the storage's allocation.
    void resize(StorageId storage, Bytes requested, std::optional<std::uint32_t> stream = {});
    void retype(StorageId storage, Category category);

    PackId pack(StorageId storage, OpId op); ///< `storage` is invalid for a tensor that is not on the device
    void unpack(PackId pack, std::uint32_t pass = 0) { event(EventKind::unpack, pack.value, pass); }
    void unpackEnd(PackId pack) { event(EventKind::unpackEnd, pack.value); }
    void release(PackId pack) { event(EventKind::release, pack.value); }

    void backwardEnter(CallId call) { event(EventKind::backwardEnter, call.value); }
    void backwardExit(CallId call) { event(EventKind::backwardExit, call.value); }
    void mark(Mark mark) { event(EventKind::mark, static_cast<std::uint32_t>(mark)); }

    std::size_t opCount() const noexcept { return columns_.opName.size(); }
    std::size_t storageCount() const noexcept { return columns_.storageBytes.size(); }
    /// Returns the current category of a storage, after its retype events.
    Category categoryOf(StorageId storage) const { return categoryNow_.at(storage.value); }

    /// Returns the validated step and leaves the builder empty. Errors (internal): events do not nest. Calls and an op
    /// that are still open, as after an exception, end with the step.
    Result<StepTracePtr> finish();

private:
    struct Columns
    {
        std::vector<std::uint32_t> stringFirst{0};
        std::vector<char> stringText;
        std::vector<StringId> moduleFqn, moduleType;
        std::vector<ModuleId> moduleParent;
        std::vector<ModuleId> registeredModule;
        std::vector<StringId> registeredName;
        std::vector<StorageId> registeredStorage;
        std::vector<Category> registeredCategory;
        std::vector<ModuleId> callModule;
        std::vector<CallId> callParent;
        std::vector<std::vector<StorageId>> callArguments, callResults; ///< by call; finish() makes columns of them
        std::vector<std::uint32_t> callArgumentFirst{0}, callResultFirst{0};
        std::vector<StorageId> callArgumentRows, callResultRows;
        std::vector<StringId> opName, opNode;
        std::vector<ModuleId> opModule;
        std::vector<CallId> opCall;
        std::vector<OpId> opForward;
        std::vector<Phase> opPhase;
        std::vector<DType> opDType;
        std::vector<std::uint16_t> opFlags;
        std::vector<Bytes> opBytes;
        std::vector<double> opFlops, opMs;
        std::vector<std::uint32_t> opInputFirst{0}, opOutputFirst{0}, opMutatedFirst{0};
        std::vector<StorageId> opInputs, opOutputs, opMutated;
        std::vector<SignatureId> opSignature;
        std::vector<std::uint32_t> opStream; ///< ends at the last row that is not on stream 0
        std::vector<StringId> groupName;
        std::vector<std::uint32_t> groupRankFirst, groupRanks; ///< empty without groups
        std::vector<OpId> collectiveOp;
        std::vector<CollectiveKind> collectiveKind;
        std::vector<Bytes> collectiveBytes;
        std::vector<GroupId> collectiveGroup;
        std::vector<std::uint32_t> collectivePeer;
        std::vector<std::uint8_t> collectiveAsync;
        std::vector<OpId> streamEventOp;
        std::vector<StreamEventKind> streamEventKind;
        std::vector<std::uint32_t> streamEventStream, streamEventNumber;
        std::vector<EventIndex> streamEventPosition;
        std::vector<std::uint32_t> signatureFirst{0};
        std::vector<std::int64_t> signatureRows;
        std::vector<Bytes> storageBytes, storageRequested;
        std::vector<Category> storageCategory;
        std::vector<OpId> storageCreator;
        std::vector<std::uint32_t> storageStream; ///< ends at the last row that is not on stream 0
        std::vector<EventIndex> reservedEvent;
        std::vector<Bytes> reservedBytes;
        std::vector<OpId> outOfMemoryOp;
        std::vector<Bytes> outOfMemoryRequested, outOfMemoryDeviceFree;
        std::vector<StorageId> packStorage;
        std::vector<OpId> packOp;
        std::vector<Bytes> resizeBytes, resizeRequested;
        std::vector<std::uint32_t> resizeStream;
        std::vector<EventKind> eventKind;
        std::vector<std::uint32_t> eventA, eventB;
    };

    void event(EventKind kind, std::uint32_t a, std::uint32_t b = 0);
    void addResult(const OpResult& result);
    /// Keeps the first misuse for the error of finish(), since a recorder cannot stop inside an op.
    void misuse(std::string_view what);
    SignatureId signature(std::span<const std::int64_t> values); ///< returns the same id for the same values
    static StepTrace view(const Columns& columns);

    Columns columns_;
    std::unordered_map<std::string, StringId> strings_;
    std::unordered_multimap<std::size_t, SignatureId> signatures_; ///< by hash
    std::vector<CallId> openCalls_;
    OpId openOp_;
    std::string misuse_;
    std::vector<Category> categoryNow_;
};

} // namespace headroom
