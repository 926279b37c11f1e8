// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/memory_event.h"
#include "core/trace/step_file.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace headroom {

namespace {

/// Limit of the sum of bytes of a step. More than any device holds, and far below an overflow.
constexpr Bytes largestSum = Bytes{1} << 60;

Error violation(std::string text)
{
    return badInput("not a valid step: " + std::move(text));
}

/// Checks single columns: equal lengths, ids in range, known enumerators, possible numbers. Keeps the first
/// violation and skips all later checks.
class ColumnChecks
{
public:
    bool failed() const noexcept { return !status_.ok(); }
    const Status& status() const noexcept { return status_; }

    void rows(std::string_view family, std::size_t expected, std::initializer_list<std::size_t> counts)
    {
        if (expected >= StorageId::none)
            fail(std::string(family) + " has " + std::to_string(expected) + " rows, expected fewer than 2^32 - 1");
        for (const std::size_t count : counts)
            if (count != expected)
                fail("a column of " + std::string(family) + " has " + std::to_string(count) + " rows, expected "
                     + std::to_string(expected));
    }

    template <class Ids>
    void ids(std::string_view column, const Ids& values, std::size_t limit, bool mayBeInvalid = true)
    {
        check(
            column, values, [&](auto id) { return id.valid() ? id.value < limit : mayBeInvalid; }, "an id in range");
    }

    /// Checks that parents come before children, so that there is no cycle.
    template <class Ids>
    void parents(std::string_view column, const Ids& values)
    {
        std::size_t row = 0;
        check(
            column, values, [&](auto id) { return (!id.valid() || id.value < row) && ++row; }, "an earlier row");
    }

    template <class Values>
    void enumerators(std::string_view column, const Values& values, std::size_t count)
    {
        check(
            column, values, [&](auto value) { return static_cast<std::size_t>(value) < count; }, "a known value");
    }

    /// Checks that byte counts are not negative, and adds them to `sum`, which stays far from overflow.
    template <class Values>
    void bytes(std::string_view column, const Values& values, Bytes& sum)
    {
        check(
            column, values,
            [&](Bytes value) {
                if (value < 0 || value > largestSum - sum)
                    return false;
                sum += value;
                return true;
            },
            "0 or more, in sum at most 2^60");
    }

    /// Checks byte counts that are not summed.
    template <class Values>
    void sizes(std::string_view column, const Values& values)
    {
        check(
            column, values, [](Bytes value) { return value >= 0 && value <= largestSum; }, "0 or more, at most 2^60");
    }

    template <class Ids>
    void rising(std::string_view column, const Ids& values)
    {
        std::uint32_t previous = 0;
        check(
            column, values, [&](auto id) { return std::exchange(previous, id.value) <= id.value; }, "in order");
    }

    /// Checks row numbers below `limit` that never fall.
    template <class Values>
    void numbers(std::string_view column, const Values& values, std::size_t limit)
    {
        std::uint32_t previous = 0;
        check(
            column, values, [&](std::uint32_t row) { return row < limit && std::exchange(previous, row) <= row; },
            "a row in range and in order");
    }

    template <class Values>
    void amounts(std::string_view column, const Values& values)
    {
        double sum = 0;
        check(
            column, values, [&](double value) { return value >= 0 && std::isfinite(sum += value); },
            "a finite number, 0 or more");
    }

    /// Checks the offsets of Lists or Strings: the offsets start at 0, never fall, and end at the number of rows.
    void offsets(std::string_view column, std::span<const std::uint32_t> first, std::size_t parents,
                 std::size_t children)
    {
        if (failed())
            return;
        if (first.size() != parents + 1 || first.front() != 0 || first.back() != children)
            return fail("the offsets of " + std::string(column) + " do not cover all rows");
        std::uint32_t previous = 0;
        check(
            column, first, [&](std::uint32_t offset) { return std::exchange(previous, offset) <= offset; },
            "rising offsets");
    }

    /// Checks Lists of valid ids.
    template <class Lists>
    void lists(const std::string& column, const Lists& lists, std::size_t parents, std::size_t limit)
    {
        offsets(column, lists.first, parents, lists.rows.size());
        ids(column, lists.rows, limit, false);
    }

    void fail(std::string text)
    {
        if (!failed())
            status_ = violation(std::move(text));
    }

private:
    template <class Values, class Good>
    void check(std::string_view column, const Values& values, Good good, std::string_view expected)
    {
        if (failed())
            return;
        std::size_t row = 0;
        for (const auto value : values) {
            if (!good(value))
                return fail("row " + std::to_string(row) + " of " + std::string(column) + " is not "
                            + std::string(expected));
            ++row;
        }
    }

    Status status_; ///< the first violation
};

/// Returns the number of rows of an optional column, or of the table if the column is empty.
template <class Column, class Table>
std::size_t rowsOf(const Column& column, const Table& table)
{
    return column.size() > 0 ? column.size() : table.size();
}

void checkNames(const StepTrace& t, ColumnChecks& checks)
{
    checks.offsets("strings", t.strings.first, t.strings.size(), t.strings.text.size());
    const std::size_t strings = t.strings.size();

    checks.rows("modules", t.modules.size(), {t.modules.type.size(), t.modules.parent.size()});
    checks.ids("modules.fqn", t.modules.fqn, strings, false);
    checks.ids("modules.type", t.modules.type, strings);
    checks.parents("modules.parent", t.modules.parent);

    const auto& r = t.registered;
    checks.rows("registered", r.size(), {r.name.size(), r.storage.size(), r.category.size()});
    checks.ids("registered.module", r.module, t.modules.size(), false);
    checks.ids("registered.name", r.name, strings, false);
    checks.ids("registered.storage", r.storage, t.storages.size());
    checks.enumerators("registered.category", r.category, categoryCount);
}

void checkCalls(const StepTrace& t, ColumnChecks& checks)
{
    const auto& c = t.calls;
    checks.rows("calls", c.size(), {c.parent.size()});
    checks.ids("calls.module", c.module, t.modules.size(), false);
    checks.parents("calls.parent", c.parent);
    checks.lists("calls.arguments", c.arguments, c.size(), t.storages.size());
    checks.lists("calls.results", c.results, c.size(), t.storages.size());
}

void checkOps(const StepTrace& t, ColumnChecks& checks)
{
    const auto& o = t.ops;
    checks.rows("ops", o.size(),
                {o.node.size(), o.module.size(), o.call.size(), o.forwardOp.size(), o.phase.size(), o.dtype.size(),
                 o.flags.size(), o.bytes.size(), o.flops.size(), o.ms.size()});
    checks.ids("ops.name", o.name, t.strings.size(), false);
    checks.ids("ops.node", o.node, t.strings.size());
    checks.ids("ops.module", o.module, t.modules.size());
    checks.ids("ops.call", o.call, t.calls.size());
    checks.ids("ops.forwardOp", o.forwardOp, o.size());
    checks.enumerators("ops.phase", o.phase, phaseCount);
    checks.enumerators("ops.dtype", o.dtype, dtypeCount);
    Bytes sum = 0;
    checks.bytes("ops.bytes", o.bytes, sum);
    checks.amounts("ops.flops", o.flops);
    checks.amounts("ops.ms", o.ms);
    checks.lists("ops.inputs", o.inputs, o.size(), t.storages.size());
    checks.lists("ops.outputs", o.outputs, o.size(), t.storages.size());
    checks.lists("ops.mutated", o.mutated, o.size(), t.storages.size());
    const auto& signatures = t.signatures.values;
    if (t.signatures.size() > 0)
        checks.offsets("signatures", signatures.first, t.signatures.size(), signatures.rows.size());
    checks.ids("ops.signature", o.signature, t.signatures.size());
}

void checkFrames(const StepTrace& t, ColumnChecks& checks)
{
    const auto& f = t.frames;
    checks.rows("frames", f.size(), {f.file.size(), f.function.size(), f.line.size()});
    checks.parents("frames.caller", f.caller);
    checks.ids("frames.file", f.file, t.strings.size(), false);
    checks.ids("frames.function", f.function, t.strings.size(), false);
    checks.rows("ops", t.ops.size(), {rowsOf(t.ops.frame, t.ops)});
    checks.ids("ops.frame", t.ops.frame, f.size());
    checks.rows("storages", t.storages.size(), {rowsOf(t.storages.frame, t.storages)});
    checks.ids("storages.frame", t.storages.frame, f.size());
}

void checkStreams(const StepTrace& t, ColumnChecks& checks)
{
    if (const auto& d = t.info.distributed; d && (d->ranksPerNode < 1 || d->rank < 0 || d->rank >= d->worldSize))
        checks.fail("rank " + std::to_string(d->rank) + " of " + std::to_string(d->worldSize) + ", "
                    + std::to_string(d->ranksPerNode) + " a node, is no rank of a job");
    checks.rows("ops", t.ops.size(), {rowsOf(t.ops.stream, t.ops), rowsOf(t.ops.signature, t.ops)});
    checks.ids("groups.name", t.groups.name, t.strings.size(), false);
    if (t.groups.size() > 0)
        checks.offsets("groups.ranks", t.groups.ranks.first, t.groups.size(), t.groups.ranks.rows.size());
    const auto& c = t.collectives;
    checks.rows("collectives", c.size(),
                {c.kind.size(), c.bytes.size(), c.group.size(), c.peer.size(), c.async.size()});
    checks.ids("collectives.op", c.op, t.ops.size(), false);
    checks.rising("collectives.op", c.op);
    checks.enumerators("collectives.kind", c.kind, collectiveKindCount);
    checks.sizes("collectives.bytes", c.bytes);
    checks.ids("collectives.group", c.group, t.groups.size(), false);
    const auto& e = t.streamEvents;
    checks.rows("stream_events", e.size(), {e.kind.size(), e.stream.size(), e.event.size(), rowsOf(e.position, e)});
    checks.ids("stream_events.op", e.op, t.ops.size() + 1, false);
    checks.rising("stream_events.op", e.op);
    checks.enumerators("stream_events.kind", e.kind, streamEventKindCount);
    for (std::size_t row = 0; row < e.size() && !checks.failed(); ++row)
        if (e.kind[row] == StreamEventKind::use && e.event[row] >= t.storages.size())
            checks.fail("row " + std::to_string(row) + " of stream_events uses a storage that does not exist");
    checks.ids("stream_events.position", e.position, t.events.size() + 1, false);
    checks.rising("stream_events.position", e.position);
}

void checkOutside(const StepTrace::Outside& rows, const std::string& table, ColumnChecks& checks)
{
    checks.rows(table, rows.size(), {rows.bytes.size(), rows.stream.size(), rows.block.size()});
    checks.enumerators(table + ".kind", rows.kind, outsideKindCount);
    checks.sizes(table + ".bytes", rows.bytes);
    std::vector<bool> alive(rows.size(), false); // by row of the allocation
    for (std::size_t row = 0; row < rows.size() && !checks.failed(); ++row) {
        if (rows.kind[row] == OutsideKind::alloc)
            alive[row] = true;
        if (rows.kind[row] != OutsideKind::free)
            continue;
        if (rows.block[row] >= row || !alive[rows.block[row]])
            return checks.fail("row " + std::to_string(row) + " of " + table + " frees a block that is not alive");
        alive[rows.block[row]] = false;
    }
}

void checkMemory(const StepTrace& t, ColumnChecks& checks)
{
    const auto& s = t.storages;
    checks.rows("storages", s.size(), {s.requested.size(), s.category.size(), s.creator.size(), rowsOf(s.stream, s)});
    Bytes sum = 0;
    Bytes requested = 0;
    checks.bytes("storages.bytes", s.bytes, sum);
    checks.bytes("storages.requested", s.requested, requested);
    checks.enumerators("storages.category", s.category, categoryCount);
    checks.ids("storages.creator", s.creator, t.ops.size());
    checks.rows("reserved", t.reserved.size(), {t.reserved.bytes.size()});
    checks.ids("reserved.event", t.reserved.event, t.events.size() + 1, false);
    checks.rising("reserved.event", t.reserved.event);
    checks.sizes("reserved.bytes", t.reserved.bytes);
    const auto& o = t.outOfMemory;
    checks.rows("out_of_memory", o.size(), {o.requested.size(), o.deviceFree.size(), rowsOf(o.pieces, o)});
    checks.ids("out_of_memory.op", o.op, t.ops.size(), false);
    checks.rising("out_of_memory.op", o.op);
    checks.sizes("out_of_memory.requested", o.requested);
    checks.sizes("out_of_memory.device_free", o.deviceFree);
    const auto& p = t.freePieces;
    checks.rows("free_pieces", p.size(), {p.bytes.size(), p.beside.size()});
    checks.numbers("free_pieces.failure", p.failure, o.size());
    checks.sizes("free_pieces.bytes", p.bytes);
    checks.ids("free_pieces.beside", p.beside, s.size());
    checkOutside(t.beforeTraining, "before_training", checks);
    checkOutside(t.betweenSteps, "between_steps", checks);
    checks.rows("packs", t.packs.size(), {t.packs.op.size()});
    checks.ids("packs.storage", t.packs.storage, s.size());
    checks.ids("packs.op", t.packs.op, t.ops.size());

    const auto& bytes = t.resizes.bytes;
    checks.rows("resizes", bytes.size(), {t.resizes.requested.size(), rowsOf(t.resizes.stream, bytes)});
    checks.bytes("resizes.bytes", t.resizes.bytes, sum);
    checks.bytes("resizes.requested", t.resizes.requested, requested);

    checks.rows("events", t.events.size(), {t.events.a.size(), t.events.b.size()});
    checks.enumerators("events.kind", t.events.kind, eventKindCount);
}

/// Checks the events, in order, against the rules that EventKind names.
class EventChecks
{
public:
    explicit EventChecks(const StepTrace& trace)
        : trace_(trace)
        , held_(trace.storages.size(), false)
        , holders_(trace.storages.size(), 0)
        , released_(trace.packs.size(), false)
        , unpacked_(trace.packs.size(), 0)
    {
    }

    Status run()
    {
        for (std::size_t i = 0; i < trace_.events.size(); ++i) {
            const EventIndex event(static_cast<std::uint32_t>(i));
            const EventKind kind = trace_.events.kind[event];
            const std::uint32_t a = trace_.events.a[event];
            if (const char* problem = apply(kind, a, trace_.events.b[event]))
                return violation("event " + std::to_string(i) + ", " + std::string(eventKindName(kind)) + " "
                                 + std::to_string(a) + ": " + problem);
        }
        if (!began_)
            return violation("there is no mark stepBegin among the events");
        if (allocs_ != trace_.storages.size() || ops_ != trace_.ops.size() || calls_ != trace_.calls.size()
            || packs_ != trace_.packs.size())
            return violation("a storage, op, call or pack has no event at the begin");
        return {};
    }

private:
    /// Checks that `a` is the next id of the table.
    static const char* begin(std::uint32_t a, std::uint32_t& next, std::size_t count)
    {
        if (a != next || a >= count)
            return "expected each id once, in order";
        ++next;
        return nullptr;
    }

    const char* apply(EventKind kind, std::uint32_t a, std::uint32_t b)
    {
        switch (kind) {
        case EventKind::alloc:
        case EventKind::free:
        case EventKind::retype:
        case EventKind::resize:
            return storage(kind, a, b);
        case EventKind::pack:
        case EventKind::unpack:
        case EventKind::unpackEnd:
        case EventKind::release:
            return autograd(kind, a);
        case EventKind::opBegin:
        case EventKind::opEnd:
            return op(kind, a);
        case EventKind::enter:
        case EventKind::exit:
        case EventKind::backwardEnter:
        case EventKind::backwardExit:
            return call(kind, a);
        case EventKind::mark:
            if (a >= markCount)
                return "expected a known mark";
            if (static_cast<Mark>(a) == Mark::stepBegin && std::exchange(began_, true))
                return "the step began before";
            return nullptr;
        }
        return "expected a known kind of event";
    }

    const char* storage(EventKind kind, std::uint32_t a, std::uint32_t b)
    {
        if (kind == EventKind::alloc) {
            if (const char* problem = begin(a, allocs_, trace_.storages.size()))
                return problem;
            held_[a] = true;
            holders_[a] = 1;
            return nullptr;
        }
        if (a >= allocs_)
            return "expected a storage that was allocated before";
        if (kind == EventKind::free) {
            if (!held_[a])
                return "the program does not hold this storage";
            held_[a] = false;
            --holders_[a];
        } else if (kind == EventKind::retype && b >= categoryCount) {
            return "expected a known category";
        } else if (kind == EventKind::resize && b >= trace_.resizes.bytes.size()) {
            return "expected a row of resizes";
        }
        return nullptr;
    }

    const char* autograd(EventKind kind, std::uint32_t a)
    {
        if (kind == EventKind::pack)
            if (const char* problem = begin(a, packs_, trace_.packs.size()))
                return problem;
        if (a >= packs_)
            return "expected a tensor that was packed before";
        if (kind != EventKind::unpackEnd && released_[a])
            return "autograd released this tensor before";
        if (kind == EventKind::unpackEnd && unpacked_[a]-- == 0)
            return "expected an unpack before";
        unpacked_[a] += kind == EventKind::unpack ? 1 : 0;
        released_[a] = kind == EventKind::release;

        const StorageId saved = trace_.packs.storage[PackId(a)];
        if (!saved.valid())
            return nullptr;
        if (saved.value >= allocs_ || holders_[saved.value] == 0)
            return "the storage is not alive";
        holders_[saved.value] += holds(kind) ? 1 : -1;
        return nullptr;
    }

    const char* op(EventKind kind, std::uint32_t a)
    {
        if (kind == EventKind::opBegin) {
            if (openOp_.valid())
                return "another op has not ended: ops do not nest";
            openOp_ = OpId(a);
            return begin(a, ops_, trace_.ops.size());
        }
        if (openOp_ != OpId(a) || !openOp_.valid())
            return "expected the op that began last";
        openOp_ = {};
        return nullptr;
    }

    const char* call(EventKind kind, std::uint32_t a)
    {
        if (kind == EventKind::enter) {
            const CallId parent = openCalls_.empty() ? CallId() : CallId(openCalls_.back());
            if (const char* problem = begin(a, calls_, trace_.calls.size()))
                return problem;
            if (trace_.calls.parent[CallId(a)] != parent)
                return "the parent is not the open call";
            const auto arguments = trace_.calls.arguments[CallId(a)];
            if (std::ranges::any_of(arguments, [this](StorageId storage) { return storage.value >= allocs_; }))
                return "expected arguments that were allocated before";
            openCalls_.push_back(a);
            return nullptr;
        }
        if (a >= calls_)
            return "expected a call that was entered before";
        if (kind == EventKind::exit) {
            if (openCalls_.empty() || openCalls_.back() != a)
                return "expected the call that was entered last";
            openCalls_.pop_back();
        }
        return nullptr;
    }

    const StepTrace& trace_;
    std::vector<bool> held_; ///< by the program
    std::vector<std::int32_t> holders_;
    std::vector<bool> released_;
    std::vector<std::uint32_t> unpacked_; ///< by pack: number of unpacks that have not ended
    std::vector<std::uint32_t> openCalls_;
    OpId openOp_;
    std::uint32_t allocs_ = 0, ops_ = 0, calls_ = 0, packs_ = 0;
    bool began_ = false;
};

} // namespace

Status validate(const StepTrace& trace)
{
    ColumnChecks checks;
    checkNames(trace, checks);
    checkCalls(trace, checks);
    checkOps(trace, checks);
    checkFrames(trace, checks);
    checkStreams(trace, checks);
    checkMemory(trace, checks);
    return checks.failed() ? checks.status() : EventChecks(trace).run();
}

} // namespace headroom
