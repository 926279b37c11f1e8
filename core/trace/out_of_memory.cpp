// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/out_of_memory.h"

#include "core/trace/memory_event.h"

#include <charconv>
#include <optional>
#include <string_view>

namespace headroom {

namespace {

constexpr std::string_view before = "out of memory (asked for ";
constexpr std::string_view between = " bytes, ";
constexpr std::string_view after = " free on the device)";

/// Removes a number and the text `behind` it from the front of `text`; nullopt: `text` does not begin so.
std::optional<Bytes> take(std::string_view& text, std::string_view behind)
{
    Bytes value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (error != std::errc() || !text.starts_with(behind))
        return std::nullopt;
    text.remove_prefix(behind.size());
    return value;
}

/// Sums the bytes of the allocator's blocks that the program or autograd holds, event by event.
class ActiveBytes : public TimelessMemory
{
public:
    explicit ActiveBytes(const StepTrace& step)
    {
        blocks_.reserve(step.storages.size());
        for (std::uint32_t i = 0; i < step.storages.size(); ++i)
            blocks_.push_back(
                {step.storages.category[StorageId(i)] != Category::nonPyTorch ? step.storages.bytes[StorageId(i)] : 0});
    }

    Bytes bytes() const { return bytes_; }

    void hold(std::uint32_t block)
    {
        if (blocks_[block].hold())
            bytes_ += blocks_[block].bytes;
    }
    void drop(std::uint32_t block)
    {
        if (blocks_[block].drop())
            bytes_ -= blocks_[block].bytes;
    }
    void resize(std::uint32_t block, Bytes bytes) { bytes_ += blocks_[block].resize(bytes); }

private:
    std::vector<HeldBlock> blocks_;
    Bytes bytes_ = 0;
};

/// Parses the name of an op in a file without StepTrace::OutOfMemoryEvents.
std::optional<OutOfMemory> parsed(std::string_view name)
{
    if (!name.starts_with(before))
        return std::nullopt;
    name.remove_prefix(before.size());
    OutOfMemory event;
    const auto requested = take(name, between);
    const auto deviceFree = requested ? take(name, after) : std::nullopt;
    if (!deviceFree)
        return std::nullopt;
    event.requested = *requested;
    event.deviceFree = *deviceFree;
    return event;
}

std::vector<OutOfMemory> requestsInNames(const StepTrace& step)
{
    // A step has far fewer names than ops, so each name is parsed once.
    std::vector<std::optional<OutOfMemory>> ofName;
    for (std::uint32_t name = 0; name < step.strings.size(); ++name)
        ofName.push_back(parsed(step.strings[StringId(name)]));
    std::vector<OutOfMemory> requests;
    for (std::uint32_t op = 0; op < step.ops.size(); ++op)
        if (const auto& request = ofName[step.ops.name[OpId(op)].value])
            requests.emplace_back(*request).op = OpId(op);
    return requests;
}

/// Returns the failed allocations in order, without `ms`, `reserved` and `active`.
std::vector<OutOfMemory> requestsOf(const StepTrace& step)
{
    const StepTrace::OutOfMemoryEvents& rows = step.outOfMemory;
    if (rows.size() == 0)
        return requestsInNames(step);
    std::vector<OutOfMemory> requests(rows.size());
    for (std::size_t row = 0; row < rows.size(); ++row) {
        requests[row].op = rows.op[row];
        requests[row].requested = rows.requested[row];
        requests[row].deviceFree = rows.deviceFree[row];
        if (rows.pieces.size() > 0)
            requests[row].pieces = rows.pieces[row];
    }
    for (std::size_t row = 0; row < step.freePieces.size(); ++row)
        requests[step.freePieces.failure[row]].largest.push_back(
            {step.freePieces.bytes[row], step.freePieces.beside[row]});
    return requests;
}

} // namespace

std::vector<OutOfMemory> outOfMemoryEvents(const StepTrace& step)
{
    return outOfMemoryEvents(step, step.ops.ms.rows);
}

std::vector<OutOfMemory> outOfMemoryEvents(const StepTrace& step, std::span<const double> ms)
{
    std::vector<OutOfMemory> found = requestsOf(step);
    if (found.empty())
        return found;
    double now = 0;
    ActiveBytes active(step);
    std::size_t row = 0;
    auto next = found.begin();
    for (std::uint32_t i = 0; i < step.events.size() && next != found.end(); ++i) {
        const EventIndex event(i);
        while (row < step.reserved.size() && step.reserved.event[row] <= event)
            ++row;
        applyRecordedEvent(active, step, i);
        const OpId op(step.events.a[event]);
        if (step.events.kind[event] == EventKind::opEnd)
            now += ms[op.value];
        for (; step.events.kind[event] == EventKind::opBegin && next != found.end() && next->op == op; ++next) {
            next->ms = now;
            next->reserved = row > 0 ? step.reserved.bytes[row - 1] : 0;
            next->active = active.bytes();
        }
    }
    return found;
}

bool endedOutOfMemory(const StepTrace& step)
{
    const std::vector<OutOfMemory> found = requestsOf(step);
    return !found.empty() && found.back().op.value + 1 == step.ops.size();
}

std::string piecesText(const OutOfMemory& event)
{
    if (event.largest.empty())
        return {};
    constexpr std::size_t named = 3; ///< different sizes in the text
    std::string sizes;
    std::size_t told = 0;
    for (std::size_t i = 0; i < named && told < event.largest.size(); ++i) {
        const std::string size = formatBytes(event.largest[told].bytes);
        std::size_t equal = 0;
        for (; told < event.largest.size() && formatBytes(event.largest[told].bytes) == size; ++told)
            ++equal;
        sizes += (sizes.empty() ? "" : ", ") + (equal > 1 ? std::to_string(equal) + " × " : "") + size;
    }
    if (event.pieces > told)
        sizes += " and " + groupedDigits(event.pieces - static_cast<std::int64_t>(told)) + " more";
    return (event.pieces > 1 ? "pieces of at most " : "a piece of ") + formatBytes(event.largest.front().bytes)
        + (event.pieces > 1 ? " (" + sizes + ")" : "");
}

std::string whyOutOfMemory(const OutOfMemory& event)
{
    std::string text = "The program asked for " + formatBytes(event.requested) + ", and the device had "
        + formatBytes(event.deviceFree) + " left";
    if (event.reserved <= 0)
        return text + ".";
    text += " beside the " + formatBytes(event.reserved) + " that PyTorch had reserved";
    const Bytes cached = event.reserved - event.active;
    const std::string pieces = piecesText(event);
    if (isFragmentation(event.requested, cached, event.deviceFree, event.reserved))
        return text + ", of which " + formatBytes(cached) + " were not in use, but in "
            + (pieces.empty() ? "no single free block that was large enough" : pieces)
            + (cached < event.requested ? ", enough together with what the device had left" : "") + ": fragmentation.";
    return text + ", of which " + formatBytes(event.active) + " were in use.";
}

std::string failureRemark(const StepTrace& step)
{
    std::vector<OutOfMemory> events = outOfMemoryEvents(step);
    std::erase_if(events, [&](const OutOfMemory& event) {
        return step.ops.phase[event.op] != Phase::forward && step.ops.phase[event.op] != Phase::backward;
    });
    if (events.empty() || !step.info.endedEarly().empty() || endedOutOfMemory(step))
        return {};
    const std::string_view module = step.moduleFqn(step.ops.module[events.front().op]);
    return "the program ran out of memory " + std::to_string(events.size()) + (events.size() == 1 ? " time" : " times")
        + (module.empty() ? "" : ", first in " + std::string(module))
        + ", and went on: where other memory is free, as on the card or under a plan, the program may run other ops "
          "and "
          "take other memory than recorded and planned. Use fixed sizes (of slices, of a batch), then record the step "
          "again";
}

Status checkWhole(const StepTrace& step, const std::string& consequence)
{
    const std::string missing = ", and the rest is missing, so that " + consequence;
    if (const std::string raised(step.info.endedEarly()); !raised.empty())
        return badInput("this step ended early (" + raised + ")" + missing
                        + ": record the step again once the script runs through a whole step");
    if (endedOutOfMemory(step))
        return badInput("this step ended out of memory" + missing
                        + ": record the step with --unlimited, as on a larger card");
    return {};
}

} // namespace headroom
