// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headroom {

/// Collects one step in the order in which it happens. Used by the recorder and, with hand-made steps, by tests.
/// Not thread-safe: the recorder calls it from one thread at a time (autograd hands over).
class StepTraceBuilder
{
public:
    StepInfo info;

    StringId string(std::string_view text); ///< the same id for the same text

    ModuleId addModule(std::string_view fqn, std::string_view type, ModuleId parent);
    void addRegistered(ModuleId module, std::string_view name, StorageId storage, Category category);

    CallId enter(ModuleId module, std::span<const StorageId> arguments); ///< adds the event
    void addArgument(CallId call, StorageId storage); ///< one that only its end showed
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
    OpId outOfMemory(Op where, Bytes requested, Bytes deviceFree); ///< begins the op that such a request is
    void setStream(OpId op, std::uint32_t stream); ///< of its kernels; 0 where it is not said
    GroupId group(std::string_view name, std::span<const std::uint32_t> ranks); ///< the same id for the same name

    struct Collective
    {
        CollectiveKind kind = CollectiveKind::allReduce;
        Bytes bytes = 0; ///< as StepTrace::Collectives counts them
        GroupId group = {};
        std::uint32_t peer = StepTrace::Collectives::noPeer;
        bool async = false;
    };
    void collective(OpId op, const Collective& collective); ///< of the op that began last
    /// Happens before that op: the next one, or the one that runs.
    void streamEvent(StreamEventKind kind, std::uint32_t stream, std::uint32_t event, OpId before = {});
    void measured(OpId op, double ms); ///< of an op that has ended: its time, instead of the roofline's

    StorageId alloc(Bytes requested, Category category, OpId creator); ///< rounds; adds the event
    void setStream(StorageId storage, std::uint32_t stream); ///< of the allocation; 0 where it is not said
    void setReserved(Bytes bytes); ///< what a real device's allocator has reserved from the next event on
    void free(StorageId storage);
    void resize(StorageId storage, Bytes requested);
    void retype(StorageId storage, Category category);

    PackId pack(StorageId storage, OpId op); ///< storage may be invalid: not on the device
    void unpack(PackId pack, std::uint32_t pass = 0); ///< in the backward pass of this number
    void unpackEnd(PackId pack);
    void release(PackId pack);

    void backwardEnter(CallId call);
    void backwardExit(CallId call);
    void mark(Mark mark);

    std::size_t opCount() const noexcept { return columns_.opName.size(); }
    std::size_t storageCount() const noexcept { return columns_.storageBytes.size(); }
    Category categoryOf(StorageId storage) const; ///< after the retypes so far

    /// The finished, validated step; the builder is empty afterwards. Fails when events do not nest. Calls and an op
    /// that are still open end with the step, as after an exception.
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
        std::vector<std::vector<StorageId>> callArguments, callResults; ///< complete only when the calls end
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
        std::vector<std::uint32_t> opStream; ///< up to the last one that is not on stream 0
        std::vector<StringId> groupName;
        std::vector<std::uint32_t> groupRankFirst, groupRanks; ///< no offsets without groups
        std::vector<OpId> collectiveOp;
        std::vector<CollectiveKind> collectiveKind;
        std::vector<Bytes> collectiveBytes;
        std::vector<GroupId> collectiveGroup;
        std::vector<std::uint32_t> collectivePeer;
        std::vector<std::uint8_t> collectiveAsync;
        std::vector<OpId> streamEventOp;
        std::vector<StreamEventKind> streamEventKind;
        std::vector<std::uint32_t> streamEventStream, streamEventNumber;
        std::vector<std::uint32_t> signatureFirst{0};
        std::vector<std::int64_t> signatureRows;
        std::vector<Bytes> storageBytes, storageRequested;
        std::vector<Category> storageCategory;
        std::vector<OpId> storageCreator;
        std::vector<std::uint32_t> storageStream; ///< up to the last one that is not on stream 0
        std::vector<EventIndex> reservedEvent;
        std::vector<Bytes> reservedBytes;
        std::vector<OpId> outOfMemoryOp;
        std::vector<Bytes> outOfMemoryRequested, outOfMemoryDeviceFree;
        std::vector<StorageId> packStorage;
        std::vector<OpId> packOp;
        std::vector<Bytes> resizeBytes, resizeRequested;
        std::vector<EventKind> eventKind;
        std::vector<std::uint32_t> eventA, eventB;
    };

    void event(EventKind kind, std::uint32_t a, std::uint32_t b = 0);
    void addResult(const OpResult& result);
    void misuse(std::string_view what); ///< remembered for finish(): a recorder cannot stop in the middle of an op
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
