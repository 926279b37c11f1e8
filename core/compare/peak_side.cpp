// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/compare/peak_side.h"

#include "core/base/try.h"
#include "core/compare/step_comparison.h"
#include "core/snapshot/block_lives.h"
#include "core/snapshot/regions.h"
#include "core/timeline/storage_owners.h"
#include "core/trace/source_lines.h"
#include "core/trace/step_trace_builder.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace headroom {

StepInstant instantOf(const StepTrace& trace, const Timeline& timeline, std::size_t change)
{
    StepInstant instant;
    if (change == Timeline::npos) {
        instant.phase = "start";
        return instant;
    }
    const MemoryChange& found = timeline.changes[change];
    instant.ms = found.ms;
    if (found.op) {
        instant.op = trace.opName(found.op);
        instant.module = trace.moduleFqn(trace.ops.module[found.op]);
        instant.phase = phaseName(trace.ops.phase[found.op]);
        return instant;
    }
    for (const PhaseSpan& span : timeline.phases) {
        if (span.beginMs <= found.ms && found.ms <= span.endMs)
            instant.phase = phaseName(span.phase);
    }
    return instant;
}

namespace {

constexpr std::uint32_t noNumber = UINT32_MAX;

/// The owner of blocks at the peak, by numbers of one file.
struct HoldingOwner
{
    std::uint32_t module = noNumber; ///< `noNumber`: no module holds the blocks
    Category category = Category::other;
    std::uint32_t kind = noNumber; ///< index in PeakSide::kinds; `noNumber`: older than the step, or made between ops
    std::uint32_t line = noNumber; ///< index in PeakSide::lines

    friend auto operator<=>(const HoldingOwner&, const HoldingOwner&) = default;
};

/// Sums up the blocks of a peak by owner.
class HoldingSums
{
public:
    void add(const HoldingOwner& owner, Bytes bytes)
    {
        auto& [sum, blocks] = sums_[owner];
        sum += bytes;
        ++blocks;
    }

    /// Returns the holdings with names. `moduleName` maps the number of a module to the module's name.
    template <class ModuleName>
    std::vector<PeakHolding> named(const std::vector<ComparedOp>& kinds, ModuleName moduleName) const
    {
        std::vector<PeakHolding> holdings;
        for (const auto& [owner, sum] : sums_) {
            const bool ofModule = owner.module != noNumber;
            holdings.push_back(
                {ofModule, ofModule ? std::string(moduleName(owner.module)) : std::string(), owner.category, owner.line,
                 owner.kind == noNumber ? std::string() : kinds[owner.kind].name, sum.first, sum.second});
        }
        return holdings;
    }

private:
    std::map<HoldingOwner, std::pair<Bytes, std::int64_t>> sums_;
};

/// Numbers the kinds of a file's ops. A name, a module and a phase are numbers of that file.
class KindNumbers
{
public:
    /// Returns the index in PeakSide::kinds; `make` returns a new kind.
    template <class Make>
    std::uint32_t of(std::uint32_t name, std::uint32_t module, Phase phase, std::vector<ComparedOp>& kinds, Make make)
    {
        const std::uint64_t place = (std::uint64_t{module} << 2U) | static_cast<std::uint64_t>(phase);
        const auto [found, isNew] = known_.try_emplace({name, place}, static_cast<std::uint32_t>(kinds.size()));
        if (isNew)
            kinds.push_back(make());
        return found->second;
    }

private:
    struct Hash
    {
        std::size_t operator()(const std::pair<std::uint32_t, std::uint64_t>& key) const noexcept
        {
            return std::hash<std::uint64_t>()((key.second << 28U) ^ (key.first * std::uint64_t{0x9e3779b97f4a7c15}));
        }
    };
    std::unordered_map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t, Hash> known_;
};

/// The highest memory of PyTorch's allocator in a timeline.
struct AllocatorPeak
{
    Bytes bytes = 0;
    std::size_t change = Timeline::npos; ///< the first change that reaches the peak; npos: the start
    Bytes nonPyTorch = 0; ///< the most memory outside of the allocator
};

AllocatorPeak allocatorPeak(const Timeline& timeline)
{
    constexpr auto outside = static_cast<std::size_t>(Category::nonPyTorch);
    AllocatorPeak peak;
    Bytes other = timeline.start[outside];
    Bytes now = total(timeline.start) - other;
    peak.bytes = now;
    peak.nonPyTorch = other;
    for (std::size_t i = 0; i < timeline.changes.size(); ++i) {
        const MemoryChange& change = timeline.changes[i];
        (change.category == Category::nonPyTorch ? other : now) += change.delta;
        peak.nonPyTorch = std::max(peak.nonPyTorch, other);
        if (now > peak.bytes) {
            peak.bytes = now;
            peak.change = i;
        }
    }
    return peak;
}

/// Returns whether no module holds a block that has no row in `registered`: the optimizer or zero_grad made the block,
/// or the root of an imported file. The recorder names the root as the module of the optimizer's ops, and an importer
/// as the module of all that no region has.
bool isOfNoModule(const StepTrace& trace, const StorageOwners& owners, const LiveBlock& block)
{
    if (!block.creator.valid() || owners.registeredRow(block.storage) != StorageOwners::none)
        return false;
    const Phase phase = trace.ops.phase[block.creator];
    const bool isImported = !trace.info.source.empty();
    return phase == Phase::optimizer || phase == Phase::zeroGrad
        || (isImported && trace.ops.module[block.creator] == ModuleId(0));
}

/// Returns a frame without the line: "model.py Block.forward"; empty for an invalid frame.
std::string functionOf(const StepTrace& step, FrameId frame)
{
    if (!frame.valid())
        return {};
    const std::string_view file = step.strings[step.frames.file[frame]];
    return std::string(file.substr(file.find_last_of('/') + 1)) + ' '
        + std::string(step.strings[step.frames.function[frame]]);
}

std::uint64_t lineNumber(const StepTrace& step, FrameId frame)
{
    return frame.valid() ? step.frames.line[frame] : 0;
}

/// Lists the lines of a step that has frames, still without their ops.
std::vector<AllocatingLine> listLines(const StepTrace& step, const SourceLines& lines)
{
    std::vector<AllocatingLine> listed;
    for (std::uint32_t i = 0; i < lines.size(); ++i) {
        const SourceLines::Line& line = lines[i];
        listed.push_back({lines.text(i),
                          functionOf(step, line.own) + " > " + functionOf(step, line.library),
                          (lineNumber(step, line.own) << 32U) | lineNumber(step, line.library),
                          {}});
    }
    return listed;
}

/// Notes that a line runs an op.
void addOp(PeakSide& side, std::uint32_t line, std::string_view op)
{
    if (line == SourceLines::none)
        return;
    std::vector<std::string>& ops = side.lines[line].ops;
    if (std::ranges::find(ops, op) == ops.end())
        ops.emplace_back(op);
}

/// Lists the ops that allocate, and returns the kind of each op of the trace.
std::vector<std::uint32_t> listAllocatingOps(const StepTrace& trace, const SourceLines& lines, PeakSide& side)
{
    std::vector<Bytes> made(trace.ops.size(), 0);
    std::vector<bool> allocates(trace.ops.size(), false);
    for (std::uint32_t i = 0; i < trace.storages.size(); ++i) {
        if (const OpId creator = trace.storages.creator[StorageId(i)]; creator.valid()) {
            made[creator.value] += trace.storages.bytes[StorageId(i)];
            allocates[creator.value] = true;
        }
    }
    std::vector<std::uint32_t> kindOf(trace.ops.size(), noNumber);
    KindNumbers kinds;
    for (std::uint32_t i = 0; i < trace.ops.size(); ++i) {
        if (!allocates[i])
            continue;
        const OpId op(i);
        const ModuleId module = trace.ops.module[op];
        kindOf[i] = kinds.of(trace.ops.name[op].value, module.value, trace.ops.phase[op], side.kinds, [&] {
            return ComparedOp{std::string(trace.opName(op)), std::string(belowRoot(trace.moduleFqn(module))),
                              trace.ops.phase[op]};
        });
        side.ops.push_back(kindOf[i]);
        side.made.push_back(made[i]);
        addOp(side, lines.lineOf(op), trace.opName(op));
    }
    return kindOf;
}

bool anyOpNamed(const std::vector<ComparedOp>& kinds)
{
    return std::ranges::any_of(kinds, [](const ComparedOp& kind) { return kind.name != unnamedAllocation; });
}

} // namespace

Result<PeakSide> peakSideOf(const StepTrace& trace, const Timeline& timeline, std::string name)
{
    if (trace.storages.size() == 0)
        return badInput(name
                        + " has no memory: expected a step, a memory snapshot, or a trace of torch.profiler that was "
                          "recorded with profile_memory=True");
    PeakSide side;
    side.name = std::move(name);
    side.source = trace.info.source;
    side.root = trace.modules.size() > 0 ? trace.moduleFqn(ModuleId(0)) : std::string_view();
    side.namesModules = trace.modules.size() > 1;
    const SourceLines lines(trace);
    side.lines = listLines(trace, lines);
    const std::vector<std::uint32_t> kindOf = listAllocatingOps(trace, lines, side);
    side.namesOps = anyOpNamed(side.kinds);

    const AllocatorPeak peak = allocatorPeak(timeline);
    side.peak = peak.bytes;
    side.nonPyTorch = peak.nonPyTorch;
    side.instant = instantOf(trace, timeline, peak.change);
    const StorageOwners owners(trace);
    HoldingSums holdings;
    for (const LiveBlock& block : liveBlocks(trace, timeline, peak.change == Timeline::npos ? 0 : peak.change + 1)) {
        if (block.category == Category::nonPyTorch)
            continue;
        const ModuleId module = isOfNoModule(trace, owners, block) ? ModuleId() : owners.module(block.storage);
        holdings.add({module.value, block.category, block.creator.valid() ? kindOf[block.creator.value] : noNumber,
                      lines.lineOf(block.storage)},
                     block.bytes);
    }
    side.holdings = holdings.named(side.kinds,
                                   [&](std::uint32_t module) { return belowRoot(trace.moduleFqn(ModuleId(module))); });
    return side;
}

namespace {

/// Makes the side of a snapshot in two passes over the events: the first finds the peak, the second the blocks that are
/// alive then.
class SnapshotSide
{
public:
    explicit SnapshotSide(const SnapshotPart& part)
        : part_(part)
        , lives_(*part.snapshot, part.history, part.device)
        , paths_(lives_.regions().paths())
    {
    }

    Result<PeakSide> make(std::string name)
    {
        ASSIGN_OR_RETURN(const StepTracePtr frames, framesOfBlocks());
        const SourceLines lines(*frames);
        side_.lines = listLines(*frames, lines);
        for (const auto& [stack, frame] : frameOf_)
            lineOf_[stack] = lines.lineOf(frame);
        side_.name = std::move(name);
        side_.source = "snapshot";
        side_.root = "Snapshot";
        side_.namesModules = paths_.size() > 1;
        findPeak();
        side_.namesOps = anyOpNamed(side_.kinds);
        collect();
        side_.instant = instant();
        return std::move(side_);
    }

private:
    std::span<const Snapshot::Event> events() const { return part_.history.events; }

    /// Returns a step without events that has the frames of all blocks.
    Result<StepTracePtr> framesOfBlocks()
    {
        StepTraceBuilder builder;
        SnapshotFrames frames(*part_.snapshot, builder);
        for (const BlockLife& life : lives_.lives())
            frameOf_.try_emplace(life.stack, frames.of(life.stack));
        builder.mark(Mark::stepBegin);
        return builder.finish();
    }

    /// Calls allocated(event, bytes) and freed(bytes) for the changes up to `count` events, and keeps `live_`.
    template <class Allocated, class Freed>
    void play(std::size_t count, Allocated allocated, Freed freed)
    {
        live_.clear();
        std::uint32_t life = 0;
        for (const auto& [address, block] : part_.history.blocks)
            live_[address] = {roundedToBlock(block.requested), life++, noNumber};
        for (std::size_t i = 0; i < count; ++i) {
            const Snapshot::Event& event = events()[i];
            if (event.action != Snapshot::Action::alloc && event.action != Snapshot::Action::freeCompleted)
                continue;
            if (const auto found = live_.find(event.address); found != live_.end()) {
                freed(found->second.bytes);
                live_.erase(found);
            }
            if (event.action == Snapshot::Action::alloc && event.size > 0) {
                const Bytes bytes = roundedToBlock(event.size);
                live_[event.address] = {bytes, life++, allocated(i, bytes)};
            }
        }
    }

    void findPeak()
    {
        Bytes now = 0;
        for (const auto& [address, block] : part_.history.blocks)
            now += roundedToBlock(block.requested);
        side_.peak = now;
        const auto allocated = [&](std::size_t i, Bytes bytes) {
            now += bytes;
            if (now > side_.peak) {
                side_.peak = now;
                peakEvent_ = i;
            }
            side_.ops.push_back(kindOf(i));
            addOp(side_, lineOf_.at(events()[i].stack), side_.kinds[side_.ops.back()].name);
            side_.made.push_back(bytes);
            return noNumber;
        };
        play(events().size(), allocated, [&](Bytes bytes) { now -= bytes; });
    }

    void collect()
    {
        HoldingSums holdings;
        std::size_t op = 0;
        play(
            peakEvent_ == Timeline::npos ? 0 : peakEvent_ + 1,
            [&](std::size_t i, Bytes) {
                moduleOf_.push_back(lives_.region(i));
                return side_.ops[op++];
            },
            [](Bytes) {});
        const std::size_t atStart = part_.history.blocks.size();
        for (const auto& [address, block] : live_) {
            const BlockLife& life = lives_.lives()[block.life];
            const RegionTree::Node region = block.life < atStart ? 0 : moduleOf_[block.life - atStart];
            const bool ofModule = region != 0 && life.made != Phase::optimizer && life.made != Phase::zeroGrad;
            holdings.add({ofModule ? region : noNumber, lives_.category(life), block.kind, lineOf_.at(life.stack)},
                         block.bytes);
        }
        side_.holdings = holdings.named(side_.kinds, [&](std::uint32_t module) { return paths_[module]; });
    }

    std::uint32_t kindOf(std::size_t i)
    {
        const Snapshot::Event& event = events()[i];
        return kinds_.of(event.stack, lives_.region(i), lives_.phase(i), side_.kinds, [&] {
            return ComparedOp{std::string(allocatingOp(lives_.stack(event.stack))), paths_[lives_.region(i)],
                              lives_.phase(i)};
        });
    }

    StepInstant instant()
    {
        if (peakEvent_ == Timeline::npos)
            return {0, "start", {}, {}};
        const Snapshot::Event& event = events()[peakEvent_];
        const std::string& path = paths_[lives_.region(peakEvent_)];
        // The time axis of the imported step: times of threads out of order do not go back.
        double ms = 0;
        for (std::size_t i = 0; i < peakEvent_; ++i)
            ms += std::max(part_.snapshot->ms(events()[i + 1]) - part_.snapshot->ms(events()[i]), 0.0);
        return {ms, std::string(phaseName(lives_.phase(peakEvent_))),
                std::string(allocatingOp(lives_.stack(event.stack))),
                path.empty() ? side_.root : side_.root + "." + path};
    }

    struct Live
    {
        Bytes bytes = 0;
        std::uint32_t life = 0; ///< index in SnapshotLives::lives()
        std::uint32_t kind = noNumber;
    };

    const SnapshotPart& part_;
    SnapshotLives lives_;
    std::vector<std::string> paths_; ///< names of modules by region
    PeakSide side_;
    KindNumbers kinds_;
    std::size_t peakEvent_ = Timeline::npos;
    std::unordered_map<std::uint64_t, Live> live_; ///< by address
    std::unordered_map<Snapshot::Index, FrameId> frameOf_; ///< by stack
    std::unordered_map<Snapshot::Index, std::uint32_t> lineOf_; ///< index in PeakSide::lines by stack
    std::vector<RegionTree::Node> moduleOf_; ///< by allocation up to the peak
};

} // namespace

Result<PeakSide> peakSideOf(const SnapshotPart& part, std::string name)
{
    return SnapshotSide(part).make(std::move(name));
}

} // namespace headroom
