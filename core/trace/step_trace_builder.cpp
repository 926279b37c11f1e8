// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/step_trace_builder.h"

#include "core/trace/step_file.h"
#include "core/trace/step_format.h"

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

template <class Id, class T>
void append(BasicLists<Id, T, OwnRows>& lists, std::span<const T> list)
{
    lists.rows.insert(lists.rows.end(), list.begin(), list.end());
    lists.first.push_back(static_cast<std::uint32_t>(lists.rows.size()));
}

/// Sets a row of an optional column. The column ends with the last row that differs from T(): most steps have no such
/// row.
template <class T>
void put(std::vector<T>& rows, std::size_t row, T value)
{
    if (value == T() && rows.size() <= row)
        return;
    rows.resize(std::max(rows.size(), row + 1));
    rows[row] = value;
}

/// Appends the rows that put() left out. A column without rows stays empty.
template <class T>
void fill(std::vector<T>& rows, std::size_t count)
{
    if (!rows.empty())
        rows.resize(count);
}

} // namespace

StepTraceBuilder::StepTraceBuilder()
{
    auto& t = tables_;
    for (auto* first : {&t.strings.first, &t.calls.arguments.first, &t.calls.results.first, &t.ops.inputs.first,
                        &t.ops.outputs.first, &t.ops.mutated.first, &t.signatures.values.first})
        first->push_back(0);
}

StringId StepTraceBuilder::string(std::string_view text)
{
    const auto [entry, isNew] = strings_.try_emplace(std::string(text), nextId<StringId>(strings_));
    if (isNew) {
        tables_.strings.text.insert(tables_.strings.text.end(), text.begin(), text.end());
        tables_.strings.first.push_back(static_cast<std::uint32_t>(tables_.strings.text.size()));
    }
    return entry->second;
}

ModuleId StepTraceBuilder::addModule(std::string_view fqn, std::string_view type, ModuleId parent)
{
    const auto id = nextId<ModuleId>(tables_.modules.fqn);
    tables_.modules.fqn.rows.push_back(string(fqn));
    tables_.modules.type.rows.push_back(string(type));
    tables_.modules.parent.rows.push_back(parent);
    return id;
}

void StepTraceBuilder::addRegistered(ModuleId module, std::string_view name, StorageId storage, Category category)
{
    tables_.registered.module.push_back(module);
    tables_.registered.name.push_back(string(name));
    tables_.registered.storage.push_back(storage);
    tables_.registered.category.push_back(category);
}

CallId StepTraceBuilder::enter(ModuleId module, std::span<const StorageId> arguments)
{
    const auto id = nextId<CallId>(tables_.calls.module);
    tables_.calls.module.rows.push_back(module);
    tables_.calls.parent.rows.push_back(openCalls_.empty() ? CallId() : openCalls_.back());
    callArguments_.emplace_back(arguments.begin(), arguments.end());
    callResults_.emplace_back();
    openCalls_.push_back(id);
    event(EventKind::enter, id.value);
    return id;
}

void StepTraceBuilder::addArgument(CallId call, StorageId storage)
{
    callArguments_[call.value].push_back(storage);
}

void StepTraceBuilder::exit(CallId call, std::span<const StorageId> results)
{
    if (openCalls_.empty() || openCalls_.back() != call)
        return misuse("a module call ended before the innermost module call");
    openCalls_.pop_back();
    callResults_[call.value].assign(results.begin(), results.end());
    event(EventKind::exit, call.value);
}

OpId StepTraceBuilder::beginOp(const Op& op)
{
    const auto id = nextId<OpId>(tables_.ops.name);
    if (openOp_.valid())
        misuse("an op began inside another op");
    openOp_ = id;
    tables_.ops.name.rows.push_back(op.name);
    tables_.ops.node.rows.push_back(op.node);
    tables_.ops.module.rows.push_back(op.module);
    tables_.ops.call.rows.push_back(op.call);
    tables_.ops.forwardOp.rows.push_back(op.forwardOp);
    tables_.ops.phase.rows.push_back(op.phase);
    put(tables_.ops.frame.rows, id.value, op.frame);
    event(EventKind::opBegin, id.value);
    return id;
}

void StepTraceBuilder::endOp(OpId op, const OpResult& result)
{
    if (!op.valid() || openOp_ != op)
        return misuse("another op ended than the running op");
    openOp_ = {};
    addResult(result);
    event(EventKind::opEnd, op.value);
}

OpId StepTraceBuilder::outOfMemory(Op where, Bytes requested, Bytes deviceFree, const FreePieces& pieces)
{
    const auto row = static_cast<std::uint32_t>(tables_.outOfMemory.op.size());
    for (std::size_t i = 0; i < std::min(pieces.largest.size(), FreePieces::kept); ++i) {
        tables_.freePieces.failure.push_back(row);
        tables_.freePieces.bytes.push_back(pieces.largest[i].bytes);
        tables_.freePieces.beside.push_back(pieces.largest[i].beside);
    }
    tables_.outOfMemory.pieces.push_back(pieces.count);
    where.name = string("out of memory");
    const OpId id = beginOp(where);
    tables_.outOfMemory.op.push_back(id);
    tables_.outOfMemory.requested.push_back(requested);
    tables_.outOfMemory.deviceFree.push_back(deviceFree);
    return id;
}

void StepTraceBuilder::setStream(OpId op, std::uint32_t stream)
{
    if (op.value >= tables_.ops.name.size())
        return misuse("an op got a stream that does not exist");
    put(tables_.ops.stream.rows, op.value, stream);
}

GroupId StepTraceBuilder::group(std::string_view name, std::span<const std::uint32_t> ranks)
{
    const StringId text = string(name);
    const auto known = std::ranges::find(tables_.groups.name.rows, text);
    const GroupId id(static_cast<std::uint32_t>(known - tables_.groups.name.rows.begin()));
    if (known != tables_.groups.name.rows.end())
        return id;
    if (tables_.groups.ranks.first.empty())
        tables_.groups.ranks.first.push_back(0);
    tables_.groups.name.rows.push_back(text);
    append(tables_.groups.ranks, ranks);
    return id;
}

void StepTraceBuilder::collective(OpId op, const Collective& collective)
{
    if (op.value + 1 != tables_.ops.name.size())
        return misuse("a collective is not the op that began last");
    tables_.collectives.op.push_back(op);
    tables_.collectives.kind.push_back(collective.kind);
    tables_.collectives.bytes.push_back(collective.bytes);
    tables_.collectives.group.push_back(collective.group);
    tables_.collectives.peer.push_back(collective.peer);
    tables_.collectives.async.push_back(collective.async ? 1 : 0);
}

void StepTraceBuilder::streamEvent(StreamEventKind kind, std::uint32_t stream, std::uint32_t event, OpId before)
{
    tables_.streamEvents.op.push_back(before.valid() ? before : nextId<OpId>(tables_.ops.name));
    tables_.streamEvents.kind.push_back(kind);
    tables_.streamEvents.stream.push_back(stream);
    tables_.streamEvents.event.push_back(event);
    tables_.streamEvents.position.push_back(nextId<EventIndex>(tables_.events.kind));
}

void StepTraceBuilder::measured(OpId op, double ms)
{
    if (op.value >= tables_.ops.ms.size())
        return misuse("an op was measured that had not ended");
    tables_.ops.ms.rows[op.value] = ms;
    tables_.ops.flags.rows[op.value] |= opMeasured;
}

void StepTraceBuilder::addResult(const OpResult& result)
{
    tables_.ops.dtype.rows.push_back(result.dtype);
    tables_.ops.flags.rows.push_back(result.flags);
    tables_.ops.bytes.rows.push_back(result.bytes);
    tables_.ops.flops.rows.push_back(result.flops);
    tables_.ops.ms.rows.push_back(result.ms);
    append(tables_.ops.inputs, result.inputs);
    append(tables_.ops.outputs, result.outputs);
    append(tables_.ops.mutated, result.mutated);
    tables_.ops.signature.rows.push_back(signature(result.signature));
}

SignatureId StepTraceBuilder::signature(std::span<const std::int64_t> values)
{
    if (values.empty())
        return {};
    const std::size_t hash = boost::hash_range(values.begin(), values.end());
    const auto [first, last] = signatures_.equal_range(hash);
    for (auto known = first; known != last; ++known) {
        if (std::ranges::equal(values, tables_.signatures.values[known->second]))
            return known->second;
    }
    const auto id = nextId<SignatureId>(tables_.signatures);
    append(tables_.signatures.values, values);
    signatures_.emplace(hash, id);
    return id;
}

FrameId StepTraceBuilder::frame(FrameId caller, std::string_view file, std::string_view function, std::uint32_t line)
{
    const FrameKey key(caller, string(file), string(function), line);
    const auto [entry, isNew] = frames_.try_emplace(key, nextId<FrameId>(tables_.frames));
    if (isNew) {
        tables_.frames.caller.rows.push_back(caller);
        tables_.frames.file.rows.push_back(std::get<1>(key));
        tables_.frames.function.rows.push_back(std::get<2>(key));
        tables_.frames.line.rows.push_back(line);
    }
    return entry->second;
}

StorageId StepTraceBuilder::alloc(Bytes requested, Category category, OpId creator)
{
    const auto id = nextId<StorageId>(tables_.storages.bytes);
    tables_.storages.bytes.rows.push_back(roundedToBlock(requested));
    tables_.storages.requested.rows.push_back(requested);
    tables_.storages.category.rows.push_back(category);
    tables_.storages.creator.rows.push_back(creator);
    categoryNow_.push_back(category);
    event(EventKind::alloc, id.value);
    return id;
}

void StepTraceBuilder::setStream(StorageId storage, std::uint32_t stream)
{
    if (storage.value >= tables_.storages.creator.size())
        return misuse("a storage got a stream that does not exist");
    put(tables_.storages.stream.rows, storage.value, stream);
}

void StepTraceBuilder::setFrame(StorageId storage, FrameId frame)
{
    if (storage.value >= tables_.storages.creator.size())
        return misuse("a storage got a frame that does not exist");
    put(tables_.storages.frame.rows, storage.value, frame);
}

void StepTraceBuilder::setReserved(Bytes bytes)
{
    const auto next = nextId<EventIndex>(tables_.events.kind);
    if (!tables_.reserved.event.empty() && tables_.reserved.event.back() == next) {
        tables_.reserved.bytes.back() = bytes;
        return;
    }
    tables_.reserved.event.push_back(next);
    tables_.reserved.bytes.push_back(bytes);
}

void StepTraceBuilder::resize(StorageId storage, Bytes requested, std::optional<std::uint32_t> stream)
{
    const auto row = static_cast<std::uint32_t>(tables_.resizes.bytes.size());
    tables_.resizes.bytes.push_back(roundedToBlock(requested));
    tables_.resizes.requested.push_back(requested);
    const bool known = storage.value < tables_.storages.stream.size(); // otherwise on stream 0
    tables_.resizes.stream.push_back(stream.value_or(known ? tables_.storages.stream.rows[storage.value] : 0));
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
    const auto id = nextId<PackId>(tables_.packs.storage);
    tables_.packs.storage.rows.push_back(storage);
    tables_.packs.op.rows.push_back(op);
    event(EventKind::pack, id.value);
    return id;
}

void StepTraceBuilder::event(EventKind kind, std::uint32_t a, std::uint32_t b)
{
    tables_.events.kind.rows.push_back(kind);
    tables_.events.a.rows.push_back(a);
    tables_.events.b.rows.push_back(b);
}

void StepTraceBuilder::misuse(std::string_view what)
{
    if (misuse_.empty())
        misuse_ = std::string(what) + " (at event " + std::to_string(tables_.events.kind.size()) + ")";
}

Result<StepTracePtr> StepTraceBuilder::finish()
{
    // An interrupted step may end inside an op: the op gets a row without results.
    if (openOp_.valid() && misuse_.empty())
        addResult({});

    StepTraceBuilder done = std::exchange(*this, StepTraceBuilder());
    if (!done.misuse_.empty())
        return Error{ErrorKind::internal, "the step was not recorded in order: " + done.misuse_};

    auto tables = std::make_shared<StepTables<OwnRows>>(std::move(done.tables_));
    // An exception may have prevented the op for which a tensor was saved.
    for (OpId& op : tables->packs.op.rows)
        if (op.valid() && op.value >= tables->ops.name.size())
            op = OpId();
    fill(tables->storages.stream.rows, tables->storages.creator.size());
    fill(tables->storages.frame.rows, tables->storages.creator.size());
    fill(tables->ops.stream.rows, tables->ops.name.size());
    fill(tables->ops.frame.rows, tables->ops.name.size());
    if (tables->signatures.values.rows.empty()) { // a hand-made step
        tables->ops.signature.rows.clear();
        tables->signatures.values.first.clear();
    }
    for (const auto& list : done.callArguments_)
        append<CallId, StorageId>(tables->calls.arguments, list);
    for (const auto& list : done.callResults_)
        append<CallId, StorageId>(tables->calls.results, list);

    auto trace = std::make_shared<StepTrace>();
    const auto view = [](std::string_view, auto& rows, const auto& owned) { rows = owned; };
    stepformat::visitColumns(view, *trace, *tables);
    stepformat::visitOptionalColumns(view, *trace, *tables);
    trace->info = std::move(done.info);
    trace->memory = std::move(tables);
    if (Status status = validate(*trace); !status)
        return Error{ErrorKind::internal, "the step was not recorded in order: " + status.error().message};
    return StepTracePtr(std::move(trace));
}

} // namespace headroom
