// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/step_layout.h"

#include "core/policy/shard_options.h"
#include "core/predict/regions.h"
#include "core/trace/memory_event.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace headroom {

namespace {

constexpr Bytes nothing = std::numeric_limits<Bytes>::min() / 4;
constexpr std::uint32_t never = StepIndex::never;

std::uint32_t lastRelease(const StepIndex& index, const StepIndex::Call& call)
{
    std::uint32_t last = call.exit;
    for (std::uint32_t pack = call.firstPack; pack < call.endPack; ++pack)
        last = std::max(last, index.releaseEvent[pack]);
    return last;
}

} // namespace

StepLayout::StepLayout(const StepModel& model, const StorageEvents& events, std::vector<ModuleId> parts, int worldSize,
                       SharedArguments sharedArguments, std::optional<std::uint32_t> boundary)
    : model_(model)
    , events_(&events)
    , parts_(std::move(parts))
    , shared_(model.trace()->storages.size(), false)
{
    findShared();
    measure(worldSize);
    if (sharedArguments != SharedArguments::asRecorded)
        holdShared(sharedArguments);
    findOwners();
    boundary_ = boundary ? *boundary : boundaryWith(std::vector<Bytes>(after_.size(), 0));
}

void StepLayout::findShared()
{
    const StepTrace& trace = *model_.trace();
    holders_.assign(trace.storages.size(), {-1, -1});
    for (int part = 0; part < static_cast<int>(parts_.size()); ++part)
        for (const CallId call : model_.index().callsOf[parts_[static_cast<std::size_t>(part)].value])
            for (const StorageId storage : trace.calls.arguments[call]) {
                auto& [first, last] = holders_[storage.value];
                shared_[storage.value] = shared_[storage.value] || (first >= 0 && first != part);
                first = first < 0 ? part : first;
                last = part;
            }
}

std::vector<bool> StepLayout::sharedBeyond(int first, int last) const
{
    std::vector<bool> beyond = shared_;
    for (std::size_t storage = 0; storage < beyond.size(); ++storage)
        if (beyond[storage])
            beyond[storage] = holders_[storage].first < first || holders_[storage].second >= last;
    return beyond;
}

bool StepLayout::hasShared(ModuleId module) const
{
    return std::ranges::any_of(model_.index().callsOf[module.value], [this](CallId call) {
        return std::ranges::any_of(model_.trace()->calls.arguments[call],
                                   [this](StorageId storage) { return shared_[storage.value]; });
    });
}

/// Sets the memory at each event since the step began.
void StepLayout::measure(int worldSize)
{
    const StepTrace& trace = *model_.trace();
    const Timeline timeline = perRank(*model_.recorded(), worldSize);
    high_.assign(trace.events.size(), nothing);
    after_.assign(trace.events.size(), nothing);
    Bytes live = total(timeline.start);
    std::size_t change = 0;
    bool began = false;
    for (std::uint32_t event = 0; event < trace.events.size(); ++event) {
        began = began
            || (trace.events.kind[EventIndex(event)] == EventKind::mark
                && static_cast<Mark>(trace.events.a[EventIndex(event)]) == Mark::stepBegin);
        if (!began)
            continue;
        Bytes high = nothing;
        for (; change < timeline.changes.size() && model_.recordedEvents()[change] == event; ++change) {
            live += timeline.changes[change].delta;
            high = std::max(high, live);
        }
        high_[event] = std::max(high, live);
        after_[event] = live;
    }
}

/// By storage: the stretches where the recording has a shared argument freed, and the first part with the argument, or
/// each part, would hold the argument. `spanOf`: where a part holds an argument of a call.
template <class SpanOf>
std::vector<std::vector<PartDeviations::Stretch>> StepLayout::held(const SpanOf& spanOf, bool byAll) const
{
    const StepTrace& trace = *model_.trace();
    std::vector<std::optional<Span>> spans(shared_.size());
    for (const ModuleId part : parts_)
        for (const CallId id : model_.index().callsOf[part.value]) {
            const Span own = spanOf(model_.index().calls[id.value]);
            for (const StorageId storage : trace.calls.arguments[id]) {
                std::optional<Span>& span = spans[storage.value];
                if (!span)
                    span = own;
                else if (byAll)
                    span = {std::max(span->begin, own.begin), std::min(span->end, own.end)};
            }
        }
    std::vector<std::vector<PartDeviations::Stretch>> stretches(spans.size());
    for (std::uint32_t storage = 0; storage < spans.size(); ++storage)
        if (shared_[storage] && spans[storage])
            stretches[storage] = freedIn(StorageId(storage), spans[storage]->begin, spans[storage]->end);
    return stretches;
}

void StepLayout::holdShared(SharedArguments sharedArguments)
{
    const auto spanOf = [this](const StepIndex::Call& call) {
        return Span{call.enter, lastRelease(model_.index(), call)};
    };
    for (const auto& stretches : held(spanOf, sharedArguments == SharedArguments::heldAtLeast))
        for (const auto& [begin, end, bytes] : stretches)
            for (std::uint32_t event = begin; event < end; ++event) {
                high_[event] += bytes;
                after_[event] += bytes;
            }
}

std::vector<std::vector<PartDeviations::Stretch>> StepLayout::heldBetween() const
{
    return held(
        [this](const StepIndex::Call& call) {
            return Span{call.exit, firstUnpackOf(model_.index(), call)};
        },
        true);
}

/// The stretches from `begin` to `end` where the recording has a storage freed.
std::vector<PartDeviations::Stretch> StepLayout::freedIn(StorageId storage, std::uint32_t begin,
                                                         std::uint32_t end) const
{
    const StepTrace& trace = *model_.trace();
    const auto last = static_cast<std::uint32_t>(trace.events.size());
    std::vector<PartDeviations::Stretch> stretches;
    const auto addBetween = [&](std::uint32_t gone, std::uint32_t back) {
        const std::uint32_t first = std::max(gone, begin), after = std::min({back, end, last});
        if (first < after)
            stretches.push_back({first, after, trace.storages.bytes[storage]});
    };
    HeldBlock block;
    std::uint32_t gone = never;
    for (const std::uint32_t event : events_->of(storage)) {
        const EventKind kind = trace.events.kind[EventIndex(event)];
        if (kind == EventKind::resize)
            continue;
        if (holds(kind) && block.hold() && gone != never)
            addBetween(gone, event);
        if (!holds(kind) && block.drop())
            gone = event;
    }
    if (!block.isHeld() && gone != never)
        addBetween(gone, last);
    return stretches;
}

void StepLayout::findOwners()
{
    std::vector<std::pair<std::uint32_t, int>> begins;
    const int count = static_cast<int>(parts_.size());
    for (int part = 0; part < count; ++part)
        for (const CallId id : model_.index().callsOf[parts_[static_cast<std::size_t>(part)].value]) {
            const StepIndex::Call& call = model_.index().calls[id.value];
            begins.emplace_back(call.enter, part);
            if (const std::uint32_t unpack = firstUnpackOf(model_.index(), call); unpack != never)
                begins.emplace_back(unpack, part);
            if (part + 1 == count)
                begins.emplace_back(call.exit + 1, count);
        }
    std::ranges::sort(begins);
    const auto end = static_cast<std::uint32_t>(model_.trace()->events.size());
    Stretch open{0, 0, -1};
    const auto close = [&](std::uint32_t event) {
        open.end = std::min(event, end);
        if (open.begin < open.end)
            stretches_.push_back(open);
    };
    for (const auto& [event, owner] : begins) {
        close(event);
        open = {event, 0, owner};
    }
    close(end);
}

/// Bytes that parts hold there count for the peak, even if the program frees the bytes before backward begins (a cache
/// of keys and values is freed with the model's output).
std::uint32_t StepLayout::boundaryWith(const std::vector<Bytes>& more) const
{
    std::uint32_t boundary = never;
    for (const Stretch& stretch : stretches_)
        for (std::uint32_t event = stretch.begin;
             stretch.owner == static_cast<int>(parts_.size()) && event < stretch.end; ++event)
            if (boundary == never || after_[event] + more[event] >= after_[boundary] + more[boundary])
                boundary = event;
    return boundary;
}

std::uint32_t StepLayout::boundaryOf(ModuleId module) const
{
    std::uint32_t boundary = never;
    for (const CallId id : model_.index().callsOf[module.value]) {
        const StepIndex::Call& call = model_.index().calls[id.value];
        const std::uint32_t unpack = firstUnpackOf(model_.index(), call);
        for (std::uint32_t event = call.exit; unpack != never && event < unpack; ++event)
            if (boundary == never || after_[event] > after_[boundary])
                boundary = event;
    }
    return boundary == never ? boundary_ : boundary;
}

Bytes StepLayout::highest(std::uint32_t begin, std::uint32_t end) const
{
    return begin < end ? *std::max_element(high_.begin() + begin, high_.begin() + end) : nothing;
}

Bytes StepLayout::highestOf(int owner) const
{
    Bytes most = nothing;
    for (const Stretch& stretch : stretches_)
        if (stretch.owner == owner)
            most = std::max(most, highest(stretch.begin, stretch.end));
    return most;
}

/// The events at which a module around several parts runs itself: the module's calls, and from the first unpack of a
/// tensor that the module packed until the backward of the module's last part begins.
std::vector<std::pair<std::uint32_t, std::uint32_t>> StepLayout::windowsOf(ModuleId module, int first, int last) const
{
    std::vector<std::pair<std::uint32_t, std::uint32_t>> windows;
    for (const CallId id : model_.index().callsOf[module.value]) {
        const StepIndex::Call& call = model_.index().calls[id.value];
        windows.emplace_back(call.enter, call.exit + 1);
        const std::uint32_t unpack = firstUnpackOf(model_.index(), call);
        const auto after
            = std::ranges::partition_point(stretches_, [&](const Stretch& stretch) { return stretch.end <= unpack; });
        const auto next = std::find_if(after, stretches_.end(), [&](const Stretch& stretch) {
            return stretch.owner >= first && stretch.owner < last;
        });
        if (unpack != never && next != stretches_.end())
            windows.emplace_back(unpack, std::max(unpack, next->begin));
    }
    return windows;
}

/// Divides the step into zones as long as possible: all parts before the module are a single zone, and so are all parts
/// after the module.
std::vector<StepLayout::Zone> StepLayout::zonesOf(ModuleId module, int first, int last) const
{
    using enum PartEvents::Where;
    const auto windows = windowsOf(module, first, last);
    std::vector<std::uint32_t> cuts; // begins and ends of windows
    for (const auto& [begin, end] : windows)
        cuts.insert(cuts.end(), {begin, end});
    std::ranges::sort(cuts);
    std::vector<Zone> zones;
    const auto add = [&](std::uint32_t begin, std::uint32_t end, int owner) {
        // Events between forward and backward belong to the last part.
        const bool atBoundary = owner == static_cast<int>(parts_.size()) && last == owner;
        const bool own = (owner >= first && owner < last) || atBoundary
            || std::ranges::any_of(windows,
                                   [&](const auto& window) { return window.first <= begin && begin < window.second; });
        const Zone zone{begin, end, own ? PartEvents::Where::own : owner < first ? below : above, owner < 0};
        if (!zones.empty() && zones.back().where == zone.where && zones.back().before == zone.before)
            zones.back().end = end;
        else
            zones.push_back(zone);
    };
    auto cut = cuts.begin();
    for (const Stretch& stretch : stretches_) {
        std::uint32_t begin = stretch.begin;
        for (; cut != cuts.end() && *cut < stretch.end; ++cut)
            if (*cut > begin)
                add(std::exchange(begin, *cut), *cut, stretch.owner);
        add(begin, stretch.end, stretch.owner);
    }
    return zones;
}

StepLayout::PartEvents StepLayout::partEvents(const LocalReplay& replay, ModuleId module, int first, int last,
                                              std::uint32_t boundary) const
{
    PartEvents made;
    const auto events = replay.events();
    made.least_ = nothing;
    for (std::size_t change = 0; change < replay.changes(); ++change)
        made.own_.push_back({change, nothing, nothing});
    std::size_t next = 0;
    const auto add = [&](const Zone& zone, bool atEvent, std::uint32_t begin, std::uint32_t end) {
        const std::int32_t change = atEvent ? replay.changeAt(next) : next > 0 ? replay.changeAt(next - 1) : -1;
        const PartEvents::Moment moment{change, atEvent};
        if (begin <= boundary && boundary < end)
            made.boundary_ = moment;
        if (zone.where == PartEvents::Where::own)
            made.addOwn(moment, atEvent ? after_[begin] : highest(begin, end));
        else if (!zone.before)
            made.addOther(moment, zone.where, begin, end);
    };
    for (const Zone& zone : zonesOf(module, first, last)) {
        std::uint32_t from = zone.begin;
        for (; next < events.size() && events[next] < zone.end; ++next) {
            if (from < events[next])
                add(zone, false, from, events[next]);
            add(zone, true, events[next], events[next] + 1);
            from = events[next] + 1;
        }
        if (from < zone.end)
            add(zone, false, from, zone.end);
    }
    return made;
}

StepLayout StepLayout::raised(const std::vector<Bytes>& bytes) const
{
    StepLayout higher = *this;
    for (std::size_t event = 0; event < bytes.size(); ++event) {
        higher.high_[event] += bytes[event];
        higher.after_[event] += bytes[event];
    }
    return higher;
}

Bytes StepLayout::PartEvents::Moment::in(const LocalEffect& effect) const
{
    if (change < 0)
        return 0;
    const LocalEffect::Change& made = effect.changes[static_cast<std::size_t>(change)];
    return atEvent ? made.high : made.after;
}

void StepLayout::PartEvents::addOwn(Moment moment, Bytes high)
{
    if (moment.change < 0) {
        least_ = std::max(least_, high);
        return;
    }
    OwnTime& time = own_[static_cast<std::size_t>(moment.change)];
    Bytes& most = moment.atEvent ? time.at : time.after;
    most = std::max(most, high);
}

void StepLayout::PartEvents::addOther(Moment moment, Where where, std::uint32_t begin, std::uint32_t end)
{
    const auto [known, added] = numbers_.emplace(std::pair(moment, where), otherMoments_.size());
    if (added)
        otherMoments_.emplace_back(moment, where);
    others_.push_back({begin, end, known->second});
}

PartMemory StepLayout::PartEvents::of(const LocalEffect& effect) const
{
    Bytes high = least_;
    for (const OwnTime& time : own_) {
        const LocalEffect::Change& change = effect.changes[time.change];
        high = std::max(high, std::max(time.at + change.high, time.after + change.after));
    }
    return {boundary_.in(effect), high};
}

StepLayout::PartEvents StepLayout::PartEvents::between(const LocalEffect& least, const LocalEffect& most) const
{
    PartEvents narrow = *this;
    narrow.least_ = of(least).high;
    std::erase_if(narrow.own_, [&](const OwnTime& time) {
        const LocalEffect::Change& change = most.changes[time.change];
        return std::max(time.at + change.high, time.after + change.after) <= narrow.least_;
    });
    return narrow;
}

PartDeviations StepLayout::PartEvents::deviations(std::span<const LocalEffect> effects) const
{
    std::vector<Bytes> more(otherMoments_.size(), 0);
    std::vector<Bytes> less(otherMoments_.size(), 0);
    for (const LocalEffect& effect : effects) {
        const Bytes held = boundary_.in(effect);
        for (std::size_t i = 0; i < otherMoments_.size(); ++i) {
            const auto& [moment, where] = otherMoments_[i];
            const Bytes change = moment.in(effect) - (where == Where::above ? held : 0);
            more[i] = std::max(more[i], change);
            less[i] = std::max(less[i], -change);
        }
    }
    PartDeviations deviations;
    for (const OtherStretch& stretch : others_) {
        if (const Bytes bytes = more[stretch.moment]; bytes > 0)
            deviations.more.push_back({stretch.begin, stretch.end, bytes});
        if (const Bytes bytes = less[stretch.moment]; bytes > 0)
            deviations.less.push_back({stretch.begin, stretch.end, bytes});
    }
    return deviations;
}

} // namespace headroom
