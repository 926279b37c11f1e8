// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/compare/step_comparison.h"

#include "core/base/common_subsequence.h"
#include "core/base/try.h"
#include "core/predict/predict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

namespace headroom {

namespace {

using Key = std::uint64_t;

/// The parts of an op's name and place that paired ops have in common.
struct PairBy
{
    bool overload = true;
    bool module = true;
};

/// Returns the name that an op of cuDNN or MIOpen has on other devices; other names are returned as they are.
std::string_view commonName(std::string_view op)
{
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> names{
        {{"aten.cudnn_batch_norm", "aten.native_batch_norm"},
         {"aten.miopen_batch_norm", "aten.native_batch_norm"},
         {"aten.cudnn_batch_norm_backward", "aten.native_batch_norm_backward"},
         {"aten.miopen_batch_norm_backward", "aten.native_batch_norm_backward"},
         {"aten.cudnn_convolution_backward", "aten.convolution_backward"}, // torch 1.9
         {"aten.miopen_convolution_backward", "aten.convolution_backward"}}};
    const auto found = std::ranges::find(names, op, &std::pair<std::string_view, std::string_view>::first);
    return found == names.end() ? op : found->second;
}

/// "aten.add.Tensor" → "aten.add": names in a profiler's trace have no overload.
std::string_view withoutOverload(std::string_view op)
{
    const std::size_t packet = op.find('.');
    return packet == std::string_view::npos ? op : op.substr(0, op.find('.', packet + 1));
}

/// Numbers ops: ops that can be paired have equal numbers.
class Keys
{
public:
    explicit Keys(PairBy by)
        : by_(by)
    {
    }

    std::vector<Key> of(const StepTrace& step)
    {
        std::vector<Key> keys;
        keys.reserve(step.ops.size());
        for (std::uint32_t i = 0; i < step.ops.size(); ++i) {
            const OpId op(i);
            std::string text(by_.overload ? step.opName(op) : commonOpName(step.opName(op)));
            text += '\n';
            if (const ModuleId module = step.ops.module[op]; module && by_.module)
                text += belowRoot(step.moduleFqn(module));
            text += '\n';
            text += phaseName(step.ops.phase[op]);
            keys.push_back(known_.try_emplace(std::move(text), static_cast<Key>(known_.size())).first->second);
        }
        return keys;
    }

private:
    PairBy by_;
    std::unordered_map<std::string, Key> known_;
};

/// Steps with more ops that are not in both are of different models.
constexpr int mostDifferences = 4000;

} // namespace

std::string_view belowRoot(std::string_view fqn)
{
    static constexpr std::array<std::string_view, 3> wrappers{"module", "_orig_mod", "base_model.model"};
    const std::size_t dot = fqn.find('.');
    std::string_view name = dot == std::string_view::npos ? std::string_view() : fqn.substr(dot + 1);
    const auto isWrapped = [&](std::string_view wrapper) {
        return name.starts_with(wrapper) && (name.size() == wrapper.size() || name[wrapper.size()] == '.');
    };
    for (auto found = wrappers.begin(); found != wrappers.end();) {
        found = std::ranges::find_if(wrappers, isWrapped);
        if (found != wrappers.end())
            name.remove_prefix(std::min(name.size(), found->size() + 1));
    }
    constexpr std::string_view adapted = ".base_layer"; // the plain module inside of an adapter of the same name
    if (name.ends_with(adapted))
        name.remove_suffix(adapted.size());
    return name == "base_model" ? std::string_view() : name;
}

std::string_view commonOpName(std::string_view op)
{
    const bool ofFrames = op.find('(') != std::string_view::npos; // "forward (model.py:54)" of a memory snapshot
    return ofFrames ? op : commonName(withoutOverload(op));
}

bool sharesModules(const StepTrace& first, const StepTrace& second)
{
    std::set<std::string_view> names;
    for (std::uint32_t i = 0; i < first.modules.size(); ++i)
        names.insert(belowRoot(first.moduleFqn(ModuleId(i))));
    names.erase(std::string_view());
    for (std::uint32_t i = 0; i < second.modules.size(); ++i)
        if (names.contains(belowRoot(second.moduleFqn(ModuleId(i)))))
            return true;
    return names.empty();
}

OpPairs pairOps(const StepTrace& first, const StepTrace& second)
{
    const bool isProfile = second.info.source == "profile";
    Keys keys(isProfile ? PairBy{false, sharesModules(first, second)} : PairBy());
    const std::vector<Key> a = keys.of(first);
    const std::vector<Key> b = keys.of(second);
    OpPairs pairs;
    pairs.second.assign(a.size(), OpId());
    for (const auto& [i, j] : longestCommonSubsequence(a, b, mostDifferences)) {
        pairs.second[i] = OpId(j);
        ++pairs.count;
    }
    return pairs;
}

namespace {

/// An instant on both time axes.
struct Anchor
{
    double measuredMs = 0;
    double predictedMs = 0;
};

/// Share of the ops of the shorter step that have to be paired; with fewer pairs the steps are of different models.
constexpr double enoughPairs = 0.5;

constexpr double sameFlops = 0.01; ///< relative difference of ops of the same size
constexpr double mostOtherSizes = 0.1; ///< share of the ops of one model with other sizes, such as a last short batch

constexpr auto nonPyTorch = static_cast<std::size_t>(Category::nonPyTorch);

/// Returns the begin of each op in ms, and the end of the last one.
std::vector<double> opBegins(const StepTrace& step)
{
    std::vector<double> begins{0};
    for (const double ms : step.ops.ms)
        begins.push_back(begins.back() + ms);
    return begins;
}

/// Returns the instant of the first mark of each kind.
std::array<std::optional<double>, markCount> markInstants(const StepTrace& step)
{
    std::array<std::optional<double>, markCount> instants;
    double now = 0;
    for (std::uint32_t i = 0; i < step.events.size(); ++i) {
        const EventIndex event(i);
        if (step.events.kind[event] == EventKind::opEnd)
            now += step.ops.ms[OpId(step.events.a[event])];
        else if (step.events.kind[event] == EventKind::mark && !instants[step.events.a[event]])
            instants[step.events.a[event]] = now;
    }
    return instants;
}

std::vector<Anchor> anchorsOfOps(const StepTrace& predicted, const StepTrace& measured, const OpPairs& pairs)
{
    const std::vector<double> here = opBegins(predicted);
    const std::vector<double> there = opBegins(measured);
    std::vector<Anchor> anchors{{0, 0}};
    for (std::size_t op = 0; op < pairs.second.size(); ++op) {
        if (const OpId other = pairs.second[op]) {
            anchors.push_back({there[other.value], here[op]});
            anchors.push_back({there[other.value + std::size_t{1}], here[op + 1]});
        }
    }
    anchors.push_back({there.back(), here.back()});
    return anchors;
}

/// Returns the marks that both steps have in the same order.
std::vector<Anchor> anchorsOfMarks(const StepTrace& predicted, const StepTrace& measured)
{
    const auto here = markInstants(predicted);
    const auto there = markInstants(measured);
    std::vector<Anchor> anchors{{0, 0}};
    for (std::size_t mark = 0; mark < markCount; ++mark) {
        if (here[mark] && there[mark] && *here[mark] > anchors.back().predictedMs
            && *there[mark] > anchors.back().measuredMs)
            anchors.push_back({*there[mark], *here[mark]});
    }
    anchors.push_back({opBegins(measured).back(), opBegins(predicted).back()});
    return anchors;
}

/// Maps an instant of the measured axis to the predicted one, linearly between two anchors.
double onPredictedAxis(const std::vector<Anchor>& anchors, double ms)
{
    const auto after = std::ranges::upper_bound(anchors, ms, {}, &Anchor::measuredMs);
    if (after == anchors.begin())
        return anchors.front().predictedMs;
    const Anchor& before = *std::prev(after);
    if (after == anchors.end())
        return before.predictedMs;
    const double share = (ms - before.measuredMs) / (after->measuredMs - before.measuredMs);
    return before.predictedMs + share * (after->predictedMs - before.predictedMs);
}

/// Sets the peak of a timeline: the highest total, and the first change that reaches it.
void findPeak(Timeline& timeline)
{
    CategoryBytes now = timeline.start;
    timeline.peak = total(now);
    timeline.atPeak = now;
    timeline.peakChange = Timeline::npos;
    Bytes sum = timeline.peak;
    for (std::size_t i = 0; i < timeline.changes.size(); ++i) {
        const MemoryChange& change = timeline.changes[i];
        now[static_cast<std::size_t>(change.category)] += change.delta;
        sum += change.delta;
        if (sum > timeline.peak) {
            timeline.peak = sum;
            timeline.atPeak = now;
            timeline.peakChange = i;
        }
    }
}

/// Moves a timeline to the axis of the other step, without memory outside of PyTorch. Its ops and storages stay those
/// of the measured step.
Timeline aligned(Timeline timeline, const std::vector<Anchor>& anchors)
{
    std::erase_if(timeline.changes, [](const MemoryChange& change) { return change.category == Category::nonPyTorch; });
    timeline.start[nonPyTorch] = 0;
    for (Timeline::Snapshot& snapshot : timeline.snapshots)
        snapshot.bytes[nonPyTorch] = 0;
    for (MemoryChange& change : timeline.changes)
        change.ms = onPredictedAxis(anchors, change.ms);
    for (PhaseSpan& span : timeline.phases) {
        span.beginMs = onPredictedAxis(anchors, span.beginMs);
        span.endMs = onPredictedAxis(anchors, span.endMs);
    }
    timeline.durationMs = anchors.back().predictedMs;
    findPeak(timeline);
    return timeline;
}

/// Returns the time of each module with its submodules. `ran` tells which modules have ops.
std::vector<double> moduleTimes(const StepTrace& step, std::vector<bool>& ran)
{
    std::vector<double> times(step.modules.size(), 0);
    ran.assign(step.modules.size(), false);
    for (std::uint32_t i = 0; i < step.ops.size(); ++i) {
        if (const ModuleId module = step.ops.module[OpId(i)]) {
            times[module.value] += step.ops.ms[OpId(i)];
            ran[module.value] = true;
        }
    }
    for (std::size_t i = times.size(); i-- > 0;) {
        if (const ModuleId parent = step.modules.parent[ModuleId(static_cast<std::uint32_t>(i))]) {
            times[parent.value] += times[i];
            ran[parent.value] = ran[parent.value] || ran[i];
        }
    }
    return times;
}

/// Compares the times of modules if the measured step names none: an op belongs to the module of its paired op.
std::vector<StepComparison::ModuleTimes> modulesOfPairs(const StepTrace& predicted, const StepTrace& measured,
                                                        const OpPairs& pairs)
{
    std::vector<bool> ran;
    const std::vector<double> here = moduleTimes(predicted, ran);
    std::vector<StepComparison::ModuleTimes> modules(predicted.modules.size());
    for (std::size_t op = 0; op < pairs.second.size(); ++op) {
        const ModuleId module = predicted.ops.module[OpId(static_cast<std::uint32_t>(op))];
        if (!module || !pairs.second[op])
            continue;
        modules[module.value].measuredMs += measured.ops.ms[pairs.second[op]];
        modules[module.value].measured = true;
    }
    for (std::size_t i = modules.size(); i-- > 0;) {
        modules[i].predictedMs = here[i];
        if (const ModuleId parent = predicted.modules.parent[ModuleId(static_cast<std::uint32_t>(i))]) {
            modules[parent.value].measuredMs += modules[i].measuredMs;
            modules[parent.value].measured = modules[parent.value].measured || modules[i].measured;
        }
    }
    return modules;
}

std::vector<StepComparison::ModuleTimes> compareModules(const StepTrace& predicted, const StepTrace& measured)
{
    std::vector<bool> ran;
    std::vector<bool> ranThere;
    const std::vector<double> here = moduleTimes(predicted, ran);
    const std::vector<double> there = moduleTimes(measured, ranThere);
    std::map<std::string_view, std::size_t> named;
    for (std::uint32_t i = 0; i < measured.modules.size(); ++i)
        named.emplace(belowRoot(measured.moduleFqn(ModuleId(i))), i);
    std::vector<StepComparison::ModuleTimes> modules(predicted.modules.size());
    for (std::uint32_t i = 0; i < modules.size(); ++i) {
        modules[i].predictedMs = here[i];
        const auto other = named.find(belowRoot(predicted.moduleFqn(ModuleId(i))));
        if (other != named.end() && ranThere[other->second]) {
            modules[i].measuredMs = there[other->second];
            modules[i].measured = true;
        }
    }
    return modules;
}

/// Returns the peak of memory outside of PyTorch.
Bytes peakOutside(const Timeline& timeline)
{
    Bytes now = timeline.start[nonPyTorch];
    Bytes most = now;
    for (const MemoryChange& change : timeline.changes) {
        now += change.category == Category::nonPyTorch ? change.delta : 0;
        most = std::max(most, now);
    }
    return most;
}

bool ranTheSameOps(const StepTrace& first, const StepTrace& second, const OpPairs& pairs)
{
    const auto fewer = static_cast<double>(std::min(first.ops.size(), second.ops.size()));
    return pairs.count > 0 && static_cast<double>(pairs.count) >= enoughPairs * fewer;
}

/// Error (badInput): matrix products and convolutions of paired ops have other sizes, as far as both steps tell.
Status checkSizes(const StepTrace& first, const StepTrace& second, const OpPairs& pairs, const std::string& name)
{
    int known = 0, different = 0;
    for (std::uint32_t row = 0; row < first.ops.size(); ++row) {
        const OpId other = pairs.second[row];
        const double flops = first.ops.flops[OpId(row)];
        if (!other || flops <= 0 || second.ops.flops[other] <= 0)
            continue;
        ++known;
        different += std::abs(second.ops.flops[other] - flops) > sameFlops * flops ? 1 : 0;
    }
    if (different <= mostOtherSizes * known)
        return {};
    return badInput(name + " is of another model, batch or sequence length than the step: " + std::to_string(different)
                    + " of " + std::to_string(known)
                    + " matrix products and convolutions have other sizes; expected a trace of the step");
}

std::string whyMarks(const StepTrace& measured, const OpPairs& pairs)
{
    if (measured.info.source == "snapshot")
        return "A memory snapshot has no ops, so that time is laid over the step where forward, backward and optimizer "
               "end.";
    const auto percent = std::lround(100.0 * static_cast<double>(pairs.count)
                                     / static_cast<double>(std::max<std::size_t>(pairs.second.size(), 1)));
    return "Only " + std::to_string(percent) + " % of the ops are the same on "
        + (measured.info.device.empty() ? std::string("the device") : measured.info.device)
        + ", so that time is laid over the step where forward, backward and optimizer end.";
}

} // namespace

Result<StepTracePtr> withMeasuredTimes(const StepTracePtr& predicted, const StepTrace& measured,
                                       const std::string& name)
{
    struct Columns
    {
        std::vector<double> ms;
        std::vector<std::uint16_t> flags;
        StepTracePtr step; ///< owns the other columns
    };
    const OpPairs pairs = pairOps(*predicted, measured);
    if (!ranTheSameOps(*predicted, measured, pairs))
        return badInput(name + " is of another model than the step: few ops are the same");
    RETURN_IF_ERROR(checkSizes(*predicted, measured, pairs, name));
    auto columns = std::make_shared<Columns>();
    columns->step = predicted;
    for (std::uint32_t row = 0; row < predicted->ops.size(); ++row) {
        const OpId other = pairs.second[row];
        const bool hasKernels = other && (measured.ops.flags[other] & opMeasured) != 0;
        columns->ms.push_back(other ? measured.ops.ms[other] : predicted->ops.ms[OpId(row)]);
        columns->flags.push_back(predicted->ops.flags[OpId(row)] | (hasKernels ? opMeasured : 0));
    }
    auto result = std::make_shared<StepTrace>(*predicted);
    result->info.simulated = false;
    result->info.gpu = measured.info.gpu;
    result->info.device = measured.info.device;
    result->info.measured = measured.info.measured;
    result->ops.ms.rows = columns->ms;
    result->ops.flags.rows = columns->flags;
    result->memory = std::move(columns);
    return StepTracePtr(std::move(result));
}

Timeline onAxisOf(const StepTrace& step, const StepTrace& other, const Timeline& timeline)
{
    const bool hasOps = step.info.source != "snapshot" && other.info.source != "snapshot";
    const OpPairs pairs = hasOps ? pairOps(step, other) : OpPairs{std::vector<OpId>(step.ops.size()), 0};
    return aligned(timeline,
                   ranTheSameOps(step, other, pairs) ? anchorsOfOps(step, other, pairs) : anchorsOfMarks(step, other));
}

Result<StepComparisonPtr> compareSteps(const StepTrace& predicted, const Timeline& timeline,
                                       const StepTracePtr& measured, const std::string& name)
{
    if (measured->info.simulated)
        return badInput(name
                        + " is simulated: expected a step recorded with --device cuda or cpu, a memory snapshot or a "
                          "trace of torch.profiler");
    const Result<Timeline> course = predict(*measured, {});
    if (!course)
        return badInput(name + ": " + course.error().message);
    auto made = std::make_shared<StepComparison>();
    made->measured = measured;
    const bool isSnapshot = measured->info.source == "snapshot";
    const bool isProfile = measured->info.source == "profile";
    const OpPairs pairs
        = isSnapshot ? OpPairs{std::vector<OpId>(predicted.ops.size()), 0} : pairOps(predicted, *measured);
    const bool byOps = ranTheSameOps(predicted, *measured, pairs);
    if (!byOps && !isSnapshot && !sharesModules(predicted, *measured))
        return badInput(name + " is of another model: the open step has none of the modules and few of the ops");
    made->axis = byOps ? StepComparison::Axis::ops : StepComparison::Axis::marks;
    if (!byOps)
        made->note = whyMarks(*measured, pairs);
    if (!isProfile && predicted.info.policy.empty() != measured->info.policy.empty())
        made->note += (made->note.empty() ? "" : " ") + std::string("Only one of the two steps ran under a policy.");
    if (isProfile && measured->info.measured)
        for (const std::string& note : measured->info.measured->notes)
            made->note += (made->note.empty() ? "" : " ") + note;
    made->measuredOp = pairs.second;
    made->pairs = pairs.count;
    made->hasTimes = !isSnapshot;
    made->hasMemory = !isProfile || measured->storages.size() > 0;
    made->aligned = std::make_shared<const Timeline>(
        aligned(*course, byOps ? anchorsOfOps(predicted, *measured, pairs) : anchorsOfMarks(predicted, *measured)));
    made->predictedPeak = timeline.peak;
    made->measuredPeak = made->aligned->peak;
    made->nonPyTorch = peakOutside(*course);
    made->predictedMs = opBegins(predicted).back();
    made->measuredMs = opBegins(*measured).back();
    made->modules = isSnapshot ? std::vector<StepComparison::ModuleTimes>(predicted.modules.size())
        : isProfile && !sharesModules(predicted, *measured) ? modulesOfPairs(predicted, *measured, pairs)
                                                            : compareModules(predicted, *measured);
    return StepComparisonPtr(std::move(made));
}

} // namespace headroom
