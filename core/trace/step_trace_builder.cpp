// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/step_trace_builder.h"

#include "core/trace/step_file.h"

#include <boost/container_hash/hash.hpp>

#include <algorithm>
#include <ranges>
#include <utility>

namespace headroom {

namespace {

template <class Id, class Rows>
Id nextId(const Rows& rows)
{
    return Id(static_cast<std::uint32_t>(rows.size()));
}

template <class T>
void appendList(std::vector<T>& rows, std::vector<std::uint32_t>& first, std::span<const T> list)
{
    rows.insert(rows.end(), list.begin(), list.end());
    first.push_back(static_cast<std::uint32_t>(rows.size()));
}

/// Sets a row of a column that ends with the last row that is not on stream 0.
void putStream(std::vector<std::uint32_t>& rows, std::size_t row, std::uint32_t stream)
{
    if (stream == 0 && rows.size() <= row)
        return;
    rows.resize(std::max(rows.size(), row + 1), 0);
    rows[row] = stream;
}

/// Appends the rows of stream 0 that putStream() left out. A column without rows stays empty.
void fillStreams(std::vector<std::uint32_t>& rows, std::size_t count)
{
    if (!rows.empty())
        rows.resize(count, 0);
}

} // namespace

StringId StepTraceBuilder::string(std::string_view text)
{
    const auto [entry, isNew] = strings_.try_emplace(std::string(text), nextId<StringId>(strings_));
    if (isNew) {
        columns_.stringText.insert(columns_.stringText.end(), text.begin(), text.end());
        columns_.stringFirst.push_back(static_cast<std::uint32_t>(columns_.stringText.size()));
    }
    return entry->second;
}

ModuleId StepTraceBuilder::addModule(std::string_view fqn, std::string_view type, ModuleId parent)
{
    const auto id = nextId<ModuleId>(columns_.moduleFqn);
    columns_.moduleFqn.push_back(string(fqn));
    columns_.moduleType.push_back(string(type));
    columns_.moduleParent.push_back(parent);
    return id;
}

void StepTraceBuilder::addRegistered(ModuleId module, std::string_view name, StorageId storage, Category category)
{
    columns_.registeredModule.push_back(module);
    columns_.registeredName.push_back(string(name));
    columns_.registeredStorage.push_back(storage);
    columns_.registeredCategory.push_back(category);
}

CallId StepTraceBuilder::enter(ModuleId module, std::span<const StorageId> arguments)
{
    const auto id = nextId<CallId>(columns_.callModule);
    columns_.callModule.push_back(module);
    columns_.callParent.push_back(openCalls_.empty() ? CallId() : openCalls_.back());
    columns_.callArguments.emplace_back(arguments.begin(), arguments.end());
    columns_.callResults.emplace_back();
    openCalls_.push_back(id);
    event(EventKind::enter, id.value);
    return id;
}

void StepTraceBuilder::addArgument(CallId call, StorageId storage)
{
    columns_.callArguments[call.value].push_back(storage);
}

void StepTraceBuilder::exit(CallId call, std::span<const StorageId> results)
{
    if (openCalls_.empty() || openCalls_.back() != call)
        return misuse("a module call was left that is not the innermost one");
    openCalls_.pop_back();
    columns_.callResults[call.value].assign(results.begin(), results.end());
    event(EventKind::exit, call.value);
}

OpId StepTraceBuilder::beginOp(const Op& op)
{
    const auto id = nextId<OpId>(columns_.opName);
    if (openOp_.valid())
        misuse("an op began inside another one");
    openOp_ = id;
    columns_.opName.push_back(op.name);
    columns_.opNode.push_back(op.node);
    columns_.opModule.push_back(op.module);
    columns_.opCall.push_back(op.call);
    columns_.opForward.push_back(op.forwardOp);
    columns_.opPhase.push_back(op.phase);
    event(EventKind::opBegin, id.value);
    return id;
}

void StepTraceBuilder::endOp(OpId op, const OpResult& result)
{
    if (!op.valid() || openOp_ != op)
        return misuse("an op ended that is not the one that runs");
    openOp_ = {};
    addResult(result);
    event(EventKind::opEnd, op.value);
}

OpId StepTraceBuilder::outOfMemory(Op where, Bytes requested, Bytes deviceFree)
{
    where.name = string("out of memory");
    const OpId id = beginOp(where);
    columns_.outOfMemoryOp.push_back(id);
    columns_.outOfMemoryRequested.push_back(requested);
    columns_.outOfMemoryDeviceFree.push_back(deviceFree);
    return id;
}

void StepTraceBuilder::setStream(OpId op, std::uint32_t stream)
{
    if (op.value >= columns_.opName.size())
        return misuse("an op got a stream that does not exist");
    putStream(columns_.opStream, op.value, stream);
}

GroupId StepTraceBuilder::group(std::string_view name, std::span<const std::uint32_t> ranks)
{
    const StringId text = string(name);
    const auto known = std::ranges::find(columns_.groupName, text);
    const GroupId id(static_cast<std::uint32_t>(known - columns_.groupName.begin()));
    if (known != columns_.groupName.end())
        return id;
    if (columns_.groupRankFirst.empty())
        columns_.groupRankFirst.push_back(0);
    columns_.groupName.push_back(text);
    appendList(columns_.groupRanks, columns_.groupRankFirst, ranks);
    return id;
}

void StepTraceBuilder::collective(OpId op, const Collective& collective)
{
    if (op.value + 1 != columns_.opName.size())
        return misuse("a collective is not the op that began last");
    columns_.collectiveOp.push_back(op);
    columns_.collectiveKind.push_back(collective.kind);
    columns_.collectiveBytes.push_back(collective.bytes);
    columns_.collectiveGroup.push_back(collective.group);
    columns_.collectivePeer.push_back(collective.peer);
    columns_.collectiveAsync.push_back(collective.async ? 1 : 0);
}

void StepTraceBuilder::streamEvent(StreamEventKind kind, std::uint32_t stream, std::uint32_t event, OpId before)
{
    columns_.streamEventOp.push_back(before.valid() ? before : nextId<OpId>(columns_.opName));
    columns_.streamEventKind.push_back(kind);
    columns_.streamEventStream.push_back(stream);
    columns_.streamEventNumber.push_back(event);
    columns_.streamEventPosition.push_back(nextId<EventIndex>(columns_.eventKind));
}

void StepTraceBuilder::measured(OpId op, double ms)
{
    if (op.value >= columns_.opMs.size())
        return misuse("an op was measured that had not ended");
    columns_.opMs[op.value] = ms;
    columns_.opFlags[op.value] |= opMeasured;
}

void StepTraceBuilder::addResult(const OpResult& result)
{
    columns_.opDType.push_back(result.dtype);
    columns_.opFlags.push_back(result.flags);
    columns_.opBytes.push_back(result.bytes);
    columns_.opFlops.push_back(result.flops);
    columns_.opMs.push_back(result.ms);
    appendList(columns_.opInputs, columns_.opInputFirst, result.inputs);
    appendList(columns_.opOutputs, columns_.opOutputFirst, result.outputs);
    appendList(columns_.opMutated, columns_.opMutatedFirst, result.mutated);
    columns_.opSignature.push_back(signature(result.signature));
}

SignatureId StepTraceBuilder::signature(std::span<const std::int64_t> values)
{
    if (values.empty())
        return {};
    const std::size_t hash = boost::hash_range(values.begin(), values.end());
    const auto [first, last] = signatures_.equal_range(hash);
    for (auto known = first; known != last; ++known) {
        const std::uint32_t row = known->second.value;
        const auto begin = columns_.signatureRows.begin();
        if (std::ranges::equal(
                values,
                std::ranges::subrange(begin + columns_.signatureFirst[row], begin + columns_.signatureFirst[row + 1])))
            return known->second;
    }
    const SignatureId id(static_cast<std::uint32_t>(columns_.signatureFirst.size() - 1));
    appendList(columns_.signatureRows, columns_.signatureFirst, values);
    signatures_.emplace(hash, id);
    return id;
}

StorageId StepTraceBuilder::alloc(Bytes requested, Category category, OpId creator)
{
    const auto id = nextId<StorageId>(columns_.storageBytes);
    columns_.storageBytes.push_back(roundedToBlock(requested));
    columns_.storageRequested.push_back(requested);
    columns_.storageCategory.push_back(category);
    columns_.storageCreator.push_back(creator);
    categoryNow_.push_back(category);
    event(EventKind::alloc, id.value);
    return id;
}

void StepTraceBuilder::setStream(StorageId storage, std::uint32_t stream)
{
    if (storage.value >= columns_.storageCreator.size())
        return misuse("a storage got a stream that does not exist");
    putStream(columns_.storageStream, storage.value, stream);
}

void StepTraceBuilder::setReserved(Bytes bytes)
{
    const auto next = nextId<EventIndex>(columns_.eventKind);
    if (!columns_.reservedEvent.empty() && columns_.reservedEvent.back() == next) {
        columns_.reservedBytes.back() = bytes;
        return;
    }
    columns_.reservedEvent.push_back(next);
    columns_.reservedBytes.push_back(bytes);
}

void StepTraceBuilder::resize(StorageId storage, Bytes requested, std::optional<std::uint32_t> stream)
{
    const auto row = static_cast<std::uint32_t>(columns_.resizeBytes.size());
    columns_.resizeBytes.push_back(roundedToBlock(requested));
    columns_.resizeRequested.push_back(requested);
    const bool known = storage.value < columns_.storageStream.size(); // otherwise on stream 0
    columns_.resizeStream.push_back(stream.value_or(known ? columns_.storageStream[storage.value] : 0));
    event(EventKind::resize, storage.value, row);
}

void StepTraceBuilder::retype(StorageId storage, Category category)
{
    if (storage.value >= categoryNow_.size())
        return misuse("a storage got a category that does not exist");
    categoryNow_[storage.value] = category;
    event(EventKind::retype, storage.value, static_cast<std::uint32_t>(category));
}

PackId StepTraceBuilder::pack(StorageId storage, OpId op)
{
    const auto id = nextId<PackId>(columns_.packStorage);
    columns_.packStorage.push_back(storage);
    columns_.packOp.push_back(op);
    event(EventKind::pack, id.value);
    return id;
}

void StepTraceBuilder::event(EventKind kind, std::uint32_t a, std::uint32_t b)
{
    columns_.eventKind.push_back(kind);
    columns_.eventA.push_back(a);
    columns_.eventB.push_back(b);
}

void StepTraceBuilder::misuse(std::string_view what)
{
    if (misuse_.empty())
        misuse_ = std::string(what) + " (at event " + std::to_string(columns_.eventKind.size()) + ")";
}

Result<StepTracePtr> StepTraceBuilder::finish()
{
    // An interrupted step may end inside an op: the op gets a row without results.
    if (openOp_.valid() && misuse_.empty())
        addResult({});

    StepTraceBuilder done = std::exchange(*this, StepTraceBuilder());
    if (!done.misuse_.empty())
        return Error{ErrorKind::internal, "the step was not recorded in order: " + done.misuse_};

    auto columns = std::make_shared<Columns>(std::move(done.columns_));
    // An exception may have prevented the op for which a tensor was saved.
    for (OpId& op : columns->packOp)
        if (op.valid() && op.value >= columns->opName.size())
            op = OpId();
    fillStreams(columns->storageStream, columns->storageCreator.size());
    fillStreams(columns->opStream, columns->opName.size());
    if (columns->signatureRows.empty()) { // a hand-made step
        columns->opSignature.clear();
        columns->signatureFirst.clear();
    }
    for (const auto& list : columns->callArguments)
        appendList<StorageId>(columns->callArgumentRows, columns->callArgumentFirst, list);
    for (const auto& list : columns->callResults)
        appendList<StorageId>(columns->callResultRows, columns->callResultFirst, list);

    auto trace = std::make_shared<StepTrace>(view(*columns));
    trace->info = std::move(done.info);
    trace->memory = std::move(columns);
    if (Status status = validate(*trace); !status)
        return Error{ErrorKind::internal, "the step was not recorded in order: " + status.error().message};
    return StepTracePtr(std::move(trace));
}

StepTrace StepTraceBuilder::view(const Columns& c)
{
    StepTrace t;
    t.strings = {c.stringFirst, c.stringText};
    t.modules = {{c.moduleFqn}, {c.moduleType}, {c.moduleParent}};
    t.registered = {c.registeredModule, c.registeredName, c.registeredStorage, c.registeredCategory};
    t.calls = {{c.callModule},
               {c.callParent},
               {c.callArgumentFirst, c.callArgumentRows},
               {c.callResultFirst, c.callResultRows}};
    t.ops = {{c.opName},
             {c.opNode},
             {c.opModule},
             {c.opCall},
             {c.opForward},
             {c.opPhase},
             {c.opDType},
             {c.opFlags},
             {c.opBytes},
             {c.opFlops},
             {c.opMs},
             {c.opInputFirst, c.opInputs},
             {c.opOutputFirst, c.opOutputs},
             {c.opMutatedFirst, c.opMutated},
             {c.opSignature},
             {c.opStream}};
    t.signatures = {{c.signatureFirst, c.signatureRows}};
    t.storages = {{c.storageBytes}, {c.storageRequested}, {c.storageCategory}, {c.storageCreator}, {c.storageStream}};
    t.reserved = {c.reservedEvent, c.reservedBytes};
    t.groups = {{c.groupName}, {c.groupRankFirst, c.groupRanks}};
    t.collectives
        = {c.collectiveOp, c.collectiveKind, c.collectiveBytes, c.collectiveGroup, c.collectivePeer, c.collectiveAsync};
    t.streamEvents
        = {c.streamEventOp, c.streamEventKind, c.streamEventStream, c.streamEventNumber, c.streamEventPosition};
    t.outOfMemory = {c.outOfMemoryOp, c.outOfMemoryRequested, c.outOfMemoryDeviceFree};
    t.packs = {{c.packStorage}, {c.packOp}};
    t.resizes = {c.resizeBytes, c.resizeRequested, c.resizeStream};
    t.events = {{c.eventKind}, {c.eventA}, {c.eventB}};
    return t;
}

} // namespace headroom
