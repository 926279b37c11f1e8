// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/earlier_steps.h"

#include "core/trace/memory_event.h"
#include "core/trace/source_lines.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>
#include <system_error>
#include <utility>
#include <vector>

namespace headroom {

namespace {

/// The activations, gradients and temporaries that are live.
class LiveActivations : public TimelessMemory
{
public:
    explicit LiveActivations(const StepTrace& step)
        : categories_(step.storages.category.begin(), step.storages.category.end())
        , found_(categories_.size(), false)
        , foundInput_(categories_.size(), false)
        , isLate_(categories_.size(), false)
    {
        for (const Bytes bytes : step.storages.bytes)
            blocks_.push_back({bytes, 0});
    }

    void hold(std::uint32_t storage)
    {
        blocks_[storage].hold();
        isLate_[storage] = isUpdated_;
    }
    void drop(std::uint32_t storage) { blocks_[storage].drop(); }
    void resize(std::uint32_t storage, Bytes bytes) { blocks_[storage].resize(bytes); }
    void retype(StorageId storage, Category category) { categories_[storage.value] = category; }
    void mark(Mark mark)
    {
        if (mark == Mark::stepEnd) {
            isUpdated_ = true;
            isLate_.assign(isLate_.size(), false);
        }
        if (mark != Mark::stepBegin)
            return;
        for (std::uint32_t storage = 0; storage < blocks_.size(); ++storage) {
            found_[storage] = live(storage) > 0;
            foundInput_[storage] = categories_[storage] == Category::input && blocks_[storage].live() > 0;
            foundBytes_ += categories_[storage] == Category::activation ? live(storage) : 0;
        }
    }

    /// By storage: `ofAutograd`, whether autograd saves the storage when the step ends; `read`, whether the forward
    /// reads the storage.
    KeptActivations kept(const StepTrace& step, const std::vector<bool>& ofAutograd,
                         const std::vector<bool>& read) const
    {
        KeptActivations kept;
        kept.found = foundBytes_;
        Bytes gradients = 0; // of earlier steps
        Bytes newGradients = 0;
        Bytes parameters = 0;
        std::multiset<Bytes> made, madeLate;
        std::set<FrameId> frames; // of what the step has made and leaves
        std::vector<StorageId> older;
        std::vector<Bytes> gone, goneInputs;
        std::set<Bytes> extended;
        Bytes inGraph = 0;
        for (std::uint32_t storage = 0; storage < blocks_.size(); ++storage) {
            const Bytes bytes = live(storage);
            const bool isGradient = categories_[storage] == Category::gradient;
            parameters += categories_[storage] == Category::parameter ? blocks_[storage].bytes : 0;
            if (found_[storage] && bytes == 0) {
                gone.push_back(blocks_[storage].bytes);
            } else if (found_[storage] && isGradient) {
                gradients += bytes;
                kept.storages.emplace_back(storage);
            } else if (found_[storage]) {
                older.emplace_back(storage);
            } else if (bytes > 0) {
                kept.storages.emplace_back(storage);
                frames.insert(frameOf(step, StorageId(storage)));
                if (const Bytes before = extendedBytes(step, StorageId(storage)); before > 0) {
                    kept.earlier += before;
                    kept.more += bytes - before;
                    extended.insert(before);
                } else {
                    (isLate_[storage] ? madeLate : made).insert(bytes);
                    newGradients += isGradient ? bytes : 0;
                }
            }
            if (foundInput_[storage] && blocks_[storage].live() == 0)
                goneInputs.push_back(blocks_[storage].bytes);
            inGraph += !found_[storage] && ofAutograd[storage] ? bytes : 0;
        }
        for (const StorageId storage : older) {
            const bool recurs = frames.contains(frameOf(step, storage));
            if (read[storage.value] && !recurs)
                continue; // as data that the program has on the GPU
            kept.earlier += live(storage.value);
            kept.recurring += recurs && !read[storage.value] ? live(storage.value) : 0;
            kept.storages.push_back(storage);
        }
        std::ranges::sort(kept.storages);
        // Each parameter may have a gradient.
        kept.gradients = std::clamp<Bytes>(gradients + newGradients - parameters, 0, gradients);
        kept.earlier += kept.gradients;
        // The program may make the next step's input before the recording ends. No module has had that input yet.
        made.merge(withoutReplacements(std::move(madeLate), goneInputs));
        // What was appended to is gone, but is no reason to take another block for a replacement.
        std::erase_if(gone, [&](Bytes bytes) { return extended.contains(bytes) && !made.contains(bytes); });
        made = withoutReplacements(std::move(made), gone);
        kept.more = std::accumulate(made.begin(), made.end(), kept.more);
        kept.inGraph = inGraph >= kept.more / 2;
        return kept;
    }

private:
    /// Returns the bytes of a block that the step found and dropped, to which torch.cat() appended to make `storage`;
    /// 0: none.
    Bytes extendedBytes(const StepTrace& step, StorageId storage) const
    {
        const OpId creator = step.storages.creator[storage];
        if (!creator.valid() || !step.opName(creator).starts_with("aten.cat."))
            return 0;
        for (const StorageId input : step.ops.inputs[creator])
            if (const Bytes bytes = blocks_[input.value].bytes;
                found_[input.value] && live(input.value) == 0 && bytes < blocks_[storage.value].bytes)
                return bytes;
        return 0;
    }

    /// What the step has made, without what replaces something that is gone: blocks of the same size, else the largest,
    /// since a step of another shape replaces an output by an output of another size.
    static std::multiset<Bytes> withoutReplacements(std::multiset<Bytes> made, const std::vector<Bytes>& gone)
    {
        std::size_t others = 0;
        for (const Bytes bytes : gone)
            if (const auto same = made.find(bytes); same != made.end())
                made.erase(same);
            else
                ++others;
        for (; others > 0 && !made.empty(); --others)
            made.erase(std::prev(made.end()));
        return made;
    }

    Bytes live(std::uint32_t storage) const { return isOfGraph(categories_[storage]) ? blocks_[storage].live() : 0; }

    std::vector<HeldBlock> blocks_; ///< by storage
    std::vector<Category> categories_;
    std::vector<bool> found_; ///< live when the step began
    std::vector<bool> foundInput_; ///< an input of the model, live when the step began
    std::vector<bool> isLate_; ///< made after the last update of the parameters
    bool isUpdated_ = false; ///< an optimizer has made a step
    Bytes foundBytes_ = 0; ///< activations that were live when the step began
};

/// By storage: whether an op of the forward reads the storage.
std::vector<bool> readByForward(const StepTrace& step)
{
    std::vector<bool> read(step.storages.size(), false);
    for (std::uint32_t op = 0; op < step.ops.size(); ++op)
        if (step.ops.phase[OpId(op)] == Phase::forward)
            for (const StorageId input : step.ops.inputs[OpId(op)])
                read[input.value] = true;
    return read;
}

} // namespace

Bytes savedForBackward(const StepTrace& step)
{
    std::vector<bool> made(step.storages.size(), false), counts(step.storages.size(), false);
    bool begun = false;
    for (std::uint32_t event = 0; event < step.events.size(); ++event) {
        const std::uint32_t a = step.events.a[EventIndex(event)];
        switch (step.events.kind[EventIndex(event)]) {
        case EventKind::mark:
            begun = begun || static_cast<Mark>(a) == Mark::stepBegin;
            break;
        case EventKind::alloc:
            made[a] = begun;
            break;
        case EventKind::free: // what the program keeps is a state, such as a cache
            counts[a] = made[a];
            break;
        default:
            break;
        }
    }
    Bytes saved = 0;
    for (const StorageId storage : step.packs.storage) {
        if (!storage.valid() || !counts[storage.value])
            continue;
        counts[storage.value] = false; // counted once, for the first pack
        saved += step.storages.bytes[storage];
    }
    return saved;
}

std::optional<EarlierSteps> otherEarlierSteps(const StepTrace& step)
{
    const std::string_view text = step.info.setting(EarlierSteps::setting);
    EarlierSteps earlier;
    const char* const end = text.data() + text.size();
    const auto [space, error] = std::from_chars(text.data(), end, earlier.least);
    if (error != std::errc() || space == end || std::from_chars(space + 1, end, earlier.most).ec != std::errc())
        return std::nullopt;
    earlier.own = savedForBackward(step);
    earlier.mayGrow = step.info.setting(longestBatchSetting).empty();
    const bool differ = std::max(earlier.most - earlier.own, earlier.own - earlier.least) > earlier.own / 1000;
    return differ ? std::optional(earlier) : std::nullopt;
}

std::set<std::string> modulesThatSave(const StepTrace& step)
{
    std::vector<bool> saves(step.modules.size(), false);
    std::set<std::string> names;
    CallId running;
    bool isBackward = false;
    for (std::uint32_t event = 0; event < step.events.size(); ++event) {
        const std::uint32_t a = step.events.a[EventIndex(event)];
        switch (step.events.kind[EventIndex(event)]) {
        case EventKind::enter:
            running = CallId(a);
            break;
        case EventKind::exit:
            running = step.calls.parent[CallId(a)];
            break;
        case EventKind::mark:
            isBackward = static_cast<Mark>(a) == Mark::forwardEnd;
            break;
        case EventKind::pack:
            for (CallId call = running; !isBackward && call.valid(); call = step.calls.parent[call]) {
                const ModuleId module = step.calls.module[call];
                if (!saves[module.value])
                    names.emplace(step.moduleFqn(module));
                saves[module.value] = true;
            }
            break;
        default:
            break;
        }
    }
    return names;
}

std::string leftOutSetting(const StepTrace& step, const std::set<std::string>& before)
{
    if (before.empty())
        return {};
    std::vector<bool> isCalled(step.modules.size(), false);
    for (const ModuleId module : step.calls.module)
        isCalled[module.value] = true;
    std::set<std::string_view> called;
    for (std::uint32_t module = 0; module < isCalled.size(); ++module)
        if (isCalled[module])
            called.insert(step.moduleFqn(ModuleId(module)));
    std::int64_t count = 0;
    std::string_view first;
    for (const std::string& module : before) {
        const std::string_view name = module;
        const std::string_view around = name.substr(0, std::min(name.rfind('.'), name.size()));
        if (called.contains(name)
            || (around != name && before.contains(std::string(around)) && !called.contains(around)))
            continue;
        if (++count == 1)
            first = name;
    }
    return count > 0 ? std::to_string(count) + ' ' + std::string(first) : std::string();
}

std::optional<LeftOutModules> leftOutModules(const StepTrace& step)
{
    const std::string_view text = step.info.setting(LeftOutModules::setting);
    LeftOutModules leftOut;
    const char* const end = text.data() + text.size();
    const auto [space, error] = std::from_chars(text.data(), end, leftOut.count);
    if (error != std::errc() || space == end || leftOut.count <= 0)
        return std::nullopt;
    leftOut.first.assign(space + 1, end);
    return leftOut;
}

std::string leftOutText(const LeftOutModules& leftOut)
{
    return "the recorded step ran without "
        + (leftOut.count > 1 ? std::to_string(leftOut.count) + " modules" : std::string("a module"))
        + " that earlier steps ran (" + leftOut.first + ")";
}

MemoryBetweenSteps mostBetweenSteps(const StepTrace& step)
{
    const StepTrace::Outside& rows = step.betweenSteps;
    MemoryBetweenSteps most;
    std::map<Bytes, std::size_t> blocks;
    Bytes now = 0;
    for (std::uint32_t row = 0; row < rows.size(); ++row) {
        const Bytes bytes = roundedToBlock(rows.bytes[row]);
        if (rows.kind[row] == OutsideKind::alloc) {
            now += bytes;
            ++blocks[bytes];
            if (now > most.peak)
                most = {now, blocks};
        } else if (rows.kind[row] != OutsideKind::emptyCache) {
            now -= bytes;
            if (rows.kind[row] == OutsideKind::free)
                --blocks[bytes];
        }
    }
    return most;
}

Bytes forwardsOutside(const StepTrace& step)
{
    const std::string_view text = step.info.setting(forwardsOutsideSetting);
    Bytes bytes = 0;
    std::from_chars(text.data(), text.data() + text.size(), bytes);
    return std::max<Bytes>(bytes, 0);
}

KeptActivations keptActivations(const StepTrace& step)
{
    if (!step.info.endedEarly().empty()) // what is alive then is alive for the rest of the step
        return {};
    LiveActivations live(step);
    for (std::uint32_t event = 0; event < step.events.size(); ++event)
        applyRecordedEvent(live, step, event);
    return live.kept(step, savedAtTheEnd(step), readByForward(step));
}

bool isGrowth(const KeptActivations& kept)
{
    return kept.more >= leastGrowth && (kept.earlier >= kept.more / 2 || (kept.inGraph && kept.recurring > 0));
}

KeptActivations keptBetweenSteps(const StepTrace& step)
{
    const StepTrace::Outside& rows = step.betweenSteps;
    std::map<Bytes, std::int64_t> kept; // blocks that the period adds, by size
    for (std::uint32_t row = 0; row < rows.size(); ++row)
        if (rows.kind[row] != OutsideKind::emptyCache)
            kept[roundedToBlock(rows.bytes[row])] += rows.kind[row] == OutsideKind::alloc ? 1 : -1;
    if (kept.empty())
        return {};
    std::map<Bytes, std::vector<StorageId>> found;
    std::set<StorageId> older, read;
    bool begun = false;
    for (std::uint32_t event = 0; event < step.events.size(); ++event) {
        const EventIndex at(event);
        const std::uint32_t a = step.events.a[at];
        const EventKind kind = step.events.kind[at];
        begun = begun || (kind == EventKind::mark && static_cast<Mark>(a) == Mark::stepBegin);
        if (kind == EventKind::alloc && !begun) {
            older.insert(StorageId(a));
            if (isData(step.storages.category[StorageId(a)]))
                found[step.storages.bytes[StorageId(a)]].emplace_back(a);
        } else if (kind == EventKind::free) {
            read.insert(StorageId(a));
            if (begun && older.contains(StorageId(a)))
                --kept[step.storages.bytes[StorageId(a)]]; // as a batch that was made before the step
        } else if (kind == EventKind::opBegin) {
            read.insert(step.ops.inputs[OpId(a)].begin(), step.ops.inputs[OpId(a)].end());
        }
    }
    KeptActivations result;
    for (const auto& [bytes, blocks] : kept) {
        std::vector<StorageId>& old = found[bytes];
        std::erase_if(old, [&](StorageId storage) { return read.contains(storage); });
        if (blocks <= 0 || static_cast<std::int64_t>(old.size()) < 2 * blocks)
            continue;
        result.more += blocks * bytes;
        result.earlier += static_cast<Bytes>(old.size()) * bytes;
        result.storages.insert(result.storages.end(), old.begin(), old.end());
    }
    result.found = result.earlier;
    return result;
}

std::vector<bool> savedAtTheEnd(const StepTrace& step)
{
    std::vector<bool> released(step.packs.size(), false);
    std::vector<bool> saved(step.storages.size(), false);
    for (std::uint32_t event = 0; event < step.events.size(); ++event)
        if (step.events.kind[EventIndex(event)] == EventKind::release)
            released[step.events.a[EventIndex(event)]] = true;
    for (std::uint32_t pack = 0; pack < step.packs.size(); ++pack)
        if (const StorageId storage = step.packs.storage[PackId(pack)]; storage.valid() && !released[pack])
            saved[storage.value] = true;
    return saved;
}

bool retainsGraph(const StepTrace& step)
{
    const std::vector<bool> saved = savedAtTheEnd(step);
    std::vector<bool> used(step.storages.size(), false);
    for (std::uint32_t event = 0; event < step.events.size(); ++event)
        if (const EventIndex at(event); step.events.kind[at] == EventKind::unpack)
            if (const StorageId storage = step.packs.storage[PackId(step.events.a[at])]; storage.valid())
                used[storage.value] = true;
    Bytes kept = 0;
    Bytes usedOfKept = 0;
    for (std::uint32_t storage = 0; storage < saved.size(); ++storage) {
        const bool counts = saved[storage] && step.storages.category[StorageId(storage)] != Category::parameter;
        kept += counts ? step.storages.bytes[StorageId(storage)] : 0;
        usedOfKept += counts && used[storage] ? step.storages.bytes[StorageId(storage)] : 0;
    }
    return usedOfKept > kept / 2;
}

} // namespace headroom
