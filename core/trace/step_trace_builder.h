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

/// Builds a StepTrace from events in their order. Used by the recorder, by importers, and by tests with hand-made
/// steps. Not thread-safe: one thread at a time may call it.
class StepTraceBuilder
{
public:
    StepInfo info;

    StringId string(std::string_view text); ///< the same id for the same text

    ModuleId addModule(std::string_view fqn, std::string_view type, ModuleId parent);
    void addRegistered(ModuleId module, std::string_view name, StorageId storage, Category category);

    CallId enter(ModuleId module, std::span<const StorageId> arguments); ///< adds the event
    void addArgument(CallId call, StorageId storage); ///< an argument found only when the call ended
    void exit(CallId call, std::span<const StorageId> results);

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
    OpId beginOp(const Op& op); ///< adds opBegin
    void endOp(OpId op, const OpResult& result); ///< adds opEnd; ops do not nest
    OpId outOfMemory(Op where, Bytes requested, Bytes deviceFree); ///< records a failed allocation and begins its op
    void setStream(OpId op, std::uint32_t stream); ///< stream of the op's kernels; without this call 0
    GroupId group(std::string_view name, std::span<const std::uint32_t> ranks); ///< the same id for the same name

    struct Collective
    {
        CollectiveKind kind = CollectiveKind::allReduce;
        Bytes bytes = 0; ///< counted as in StepTrace::Collectives
        GroupId group = {};
        std::uint32_t peer = StepTrace::Collectives::noPeer;
        bool async = false;
    };
    void collective(OpId op, const Collective& collective); ///< `op` must be the op that began last
    /// Adds a stream event before the op `before`; invalid: before the next op.
    void streamEvent(StreamEventKind kind, std::uint32_t stream, std::uint32_t event, OpId before = {});
    void use(StorageId storage, std::uint32_t stream); ///< adds the stream event
    void measured(OpId op, double ms); ///< replaces the time of an op that has ended

    StorageId alloc(Bytes requested, Category category, OpId creator); ///< rounds the size; adds the event
    void setStream(StorageId storage, std::uint32_t stream); ///< stream of the allocation; without this call 0
    void setReserved(Bytes bytes); ///< bytes that a real device's allocator has reserved from the next event on
    void free(StorageId storage);
    /// `stream`: of the new block; without it that of the storage's allocation.
    void resize(StorageId storage, Bytes requested, std::optional<std::uint32_t> stream = {});
    void retype(StorageId storage, Category category);

    PackId pack(StorageId storage, OpId op); ///< storage may be invalid: not on the device
    void unpack(PackId pack, std::uint32_t pass = 0); ///< `pass`: number of the backward pass
    void unpackEnd(PackId pack);
    void release(PackId pack);

    void backwardEnter(CallId call);
    void backwardExit(CallId call);
    void mark(Mark mark);

    std::size_t opCount() const noexcept { return columns_.opName.size(); }
    std::size_t storageCount() const noexcept { return columns_.storageBytes.size(); }
    Category categoryOf(StorageId storage) const; ///< current category, retype events included

    /// Returns the validated step and leaves the builder empty. Fails when events do not nest. Calls and an op that are
    /// still open end with the step, as after an exception.
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
        std::vector<std::vector<StorageId>> callArguments, callResults; ///< complete only after the calls end
        std::vector<std::uint32_t> callArgumentFirst{0}, callResultFirst{0}; ///< filled by finish()
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
    void misuse(std::string_view what); ///< keeps the first misuse for finish(): a recorder cannot stop inside an op
    SignatureId signature(std::span<const std::int64_t> values); ///< the same id for the same values
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
