// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/profile/profile_ops.h"

#include "core/profile/profile.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace headroom {
namespace {

/// The spans that began in a window, as a tree with the kernels that each span launched itself.
class SpanTree
{
public:
    static constexpr std::uint32_t none = UINT32_MAX;

    struct Node
    {
        const Profile::Span* span = nullptr;
        std::uint32_t parent = none; ///< an earlier node
        std::int64_t kernels = 0; ///< launched by the span itself, not by inner spans
        Profile::Nanoseconds kernelTime = 0;
        Profile::Text kernel = 0; ///< name of the first kernel
        Profile::Nanoseconds inside = 0; ///< CPU time of the children
    };

    SpanTree(const Profile& profile, const ProfileWindow& window);

    /// Nodes by thread; outer spans come before inner spans.
    std::span<const Node> nodes() const { return nodes_; }
    /// Kernels launched in the window.
    std::span<const Profile::Kernel* const> kernels() const { return kernels_; }
    Profile::Nanoseconds withoutSpan() const noexcept { return withoutSpan_; } ///< time of kernels without a node

private:
    void nest(const Profile& profile, const ProfileWindow& window);
    void attribute(const Profile& profile, const ProfileWindow& window);
    std::uint32_t innermost(std::uint32_t thread, Profile::Nanoseconds at) const;
    std::uint32_t withExternalId(std::int64_t id) const;

    std::vector<Node> nodes_;
    std::vector<std::pair<std::int64_t, std::uint32_t>> externalIds_; ///< sorted
    std::vector<const Profile::Kernel*> kernels_;
    Profile::Nanoseconds withoutSpan_ = 0;
};

SpanTree::SpanTree(const Profile& profile, const ProfileWindow& window)
{
    nest(profile, window);
    attribute(profile, window);
}

void SpanTree::nest(const Profile& profile, const ProfileWindow& window)
{
    for (const Profile::Span& span : profile.spans)
        if (window.begin <= span.begin && span.begin < window.end)
            nodes_.push_back({&span});
    // If two spans begin and end together, the trace has the outer span first.
    std::ranges::stable_sort(
        nodes_, {}, [](const Node& node) { return std::tuple(node.span->thread, node.span->begin, -node.span->end); });
    std::vector<std::uint32_t> open;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
        const Profile::Span& span = *nodes_[i].span;
        const auto isOver = [&](const Profile::Span& outer) {
            // With times in whole microseconds an inner span may end a little after the outer span.
            return outer.thread != span.thread || outer.end < span.begin
                || (outer.end == span.begin && outer.end != span.end);
        };
        while (!open.empty() && isOver(*nodes_[open.back()].span))
            open.pop_back();
        if (!open.empty()) {
            nodes_[i].parent = open.back();
            nodes_[open.back()].inside += span.end - span.begin;
        }
        open.push_back(i);
        externalIds_.emplace_back(span.externalId, i);
    }
    std::ranges::sort(externalIds_);
}

std::uint32_t SpanTree::innermost(std::uint32_t thread, Profile::Nanoseconds at) const
{
    const auto after = std::ranges::upper_bound(nodes_, std::pair(thread, at), {}, [](const Node& node) {
        return std::pair(node.span->thread, node.span->begin);
    });
    if (after == nodes_.begin() || std::prev(after)->span->thread != thread)
        return none;
    auto node = static_cast<std::uint32_t>(std::distance(nodes_.begin(), after) - 1);
    while (node != none && nodes_[node].span->end < at)
        node = nodes_[node].parent;
    return node;
}

std::uint32_t SpanTree::withExternalId(std::int64_t id) const
{
    const auto found = std::ranges::lower_bound(externalIds_, std::pair(id, std::uint32_t{0}));
    return id != 0 && found != externalIds_.end() && found->first == id ? found->second : none;
}

void SpanTree::attribute(const Profile& profile, const ProfileWindow& window)
{
    std::vector<const Profile::Launch*> launches;
    launches.reserve(profile.launches.size());
    for (const Profile::Launch& launch : profile.launches)
        launches.push_back(&launch);
    std::ranges::stable_sort(launches, {}, &Profile::Launch::correlation);
    const auto launchOf = [&](const Profile::Kernel& kernel) -> const Profile::Launch* {
        const auto found = std::ranges::lower_bound(launches, kernel.correlation, {}, &Profile::Launch::correlation);
        return found != launches.end() && (*found)->correlation == kernel.correlation ? *found : nullptr;
    };
    // A kernel before the first kernel with a known launch was launched before the trace began.
    Profile::Nanoseconds first = std::numeric_limits<Profile::Nanoseconds>::max();
    for (const Profile::Kernel& kernel : profile.kernels)
        if (kernel.begin < first && launchOf(kernel))
            first = kernel.begin;
    const bool knowsLaunches = first != std::numeric_limits<Profile::Nanoseconds>::max();
    const auto isInside = [&](Profile::Nanoseconds at) { return window.begin <= at && at < window.end; };
    for (const Profile::Kernel& kernel : profile.kernels) {
        const Profile::Launch* const launched = launchOf(kernel);
        std::uint32_t node = none;
        if (launched ? !isInside(launched->begin) : knowsLaunches && kernel.begin < first)
            continue;
        if (launched)
            node = innermost(launched->thread, launched->begin);
        if (node == none)
            node = withExternalId(kernel.externalId);
        if (!launched && node == none && !isInside(kernel.begin))
            continue;
        kernels_.push_back(&kernel);
        if (node == none) {
            withoutSpan_ += kernel.end - kernel.begin;
            continue;
        }
        if (++nodes_[node].kernels == 1)
            nodes_[node].kernel = kernel.name;
        nodes_[node].kernelTime += kernel.end - kernel.begin;
    }
}

using Nanoseconds = Profile::Nanoseconds;

double milliseconds(Nanoseconds time)
{
    return static_cast<double>(time) / 1e6;
}

/// Returns whether this is an op of the dispatcher, "aten::mm" or "fbgemm::…", and not a function of autograd or a
/// label of the user.
bool isOpName(std::string_view name)
{
    const std::size_t colons = name.find("::");
    if (colons == std::string_view::npos || name.starts_with("torch::") || name.starts_with("autograd::"))
        return false;
    return std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == ':'; })
        && name.find("::", colons + 2) == std::string_view::npos;
}

/// Returns whether the name is of the backward pass: "AddmmBackward0", "autograd::engine::evaluate_function: …",
/// "torch::autograd::AccumulateGrad".
bool isOfBackward(std::string_view name)
{
    if (name.starts_with("autograd::engine::") || name.starts_with("torch::autograd::"))
        return true;
    while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0)
        name.remove_suffix(1);
    return name.ends_with("Backward") && name.find("::") == std::string_view::npos;
}

/// "TOP(Net)::forward.layer1(Sequential)::forward.0(Block)::forward" → "layer1.0".
std::string scriptedModule(std::string_view hierarchy)
{
    std::string path;
    while (!hierarchy.empty()) {
        const std::string_view part = hierarchy.substr(0, hierarchy.find('.'));
        hierarchy.remove_prefix(std::min(hierarchy.size(), part.size() + 1));
        const std::string_view name = part.substr(0, part.find('('));
        if (name.size() < part.size() && name != "TOP" && name != "SELF" && !name.empty())
            path += (path.empty() ? "" : ".") + std::string(name);
    }
    return path;
}

class StepReader
{
public:
    StepReader(const Profile& profile, const ProfileWindow& window)
        : profile_(profile)
        , tree_(profile, window)
        , window_(window)
    {
    }

    ProfiledStep read()
    {
        states_.reserve(tree_.nodes().size());
        for (const SpanTree::Node& node : tree_.nodes())
            visit(node);
        for (std::size_t i = 0; i < step_.ops.size(); ++i) {
            const auto forward = moduleOfSequence_.find(sequences_[i]);
            if (step_.ops[i].phase == Phase::backward && forward != moduleOfSequence_.end())
                step_.ops[i].module = forward->second.module;
        }
        std::ranges::stable_sort(step_.ops, {}, [](const ProfiledOp& op) { return op.span->begin; });
        if (!namesOptimizer_)
            guessOptimizer();
        followIssue();
        account();
        return std::move(step_);
    }

private:
    static constexpr std::uint32_t none = SpanTree::none;

    struct State
    {
        std::uint32_t op = none; ///< the enclosing op of the step
        std::uint32_t module = 0;
        Phase phase = Phase::forward;
        std::int64_t sequence = -1; ///< of the nearest enclosing backward node
    };
    struct Forward
    {
        Nanoseconds begin = 0;
        std::uint32_t module = 0;
    };

    void visit(const SpanTree::Node& node)
    {
        const Profile::Span& span = *node.span;
        const std::string_view name = profile_.texts[span.name];
        State state = node.parent == none ? State() : states_[node.parent];
        if (state.op == none) {
            place(state, span, name);
            enterModule(state, span, name);
        }
        const bool isOp
            = state.op == none && span.type == Profile::SpanType::op && isOpName(name) && !isCompositeOp(name);
        const bool launchesOnItsOwn = state.op == none && !isOp && node.kernels > 0;
        if (isOp || launchesOnItsOwn) {
            step_.ops.push_back({&span, state.phase, state.module, 0, 0, 0});
            sequences_.push_back(state.sequence);
            step_.ops.back().cpuMs = milliseconds(span.end - span.begin - (isOp ? 0 : node.inside));
        }
        if (isOp)
            state.op = static_cast<std::uint32_t>(step_.ops.size() - 1);
        if (node.kernels > 0) {
            ProfiledOp& op = launchesOnItsOwn ? step_.ops.back() : step_.ops[state.op];
            op.kernel = op.kernels > 0 ? op.kernel : node.kernel;
            op.kernels += node.kernels;
            op.gpuMs += milliseconds(node.kernelTime);
        }
        if (state.phase == Phase::forward && span.sequence >= 0) {
            Forward& forward = moduleOfSequence_[span.sequence];
            if (forward.begin <= span.begin) // the last one made the node
                forward = {span.begin, state.module};
        }
        states_.push_back(state);
    }

    void place(State& state, const Profile::Span& span, std::string_view name)
    {
        if (name.starts_with("Optimizer.step#")) {
            state.phase = Phase::optimizer;
            namesOptimizer_ = true;
        } else if (name.starts_with("Optimizer.zero_grad#")) {
            state.phase = Phase::zeroGrad;
        } else if (isOfBackward(name)) {
            state.phase = Phase::backward;
            if (span.sequence >= 0)
                state.sequence = span.sequence;
        }
    }

    void enterModule(State& state, const Profile::Span& span, std::string_view name)
    {
        if (state.phase != Phase::forward)
            return;
        if (span.hierarchy != 0) {
            state.module = moduleNamed(0, scriptedModule(profile_.texts[span.hierarchy]));
            return;
        }
        const bool named = span.type == Profile::SpanType::annotation && !name.starts_with("ProfilerStep#")
            && !name.starts_with("enumerate(") && !name.starts_with("Optimizer.");
        if (span.type != Profile::SpanType::module && !named)
            return;
        // A label may be the whole path or the last part.
        const std::string outer = step_.modules[state.module].name;
        const bool whole = outer.empty() || name.starts_with(outer + '.');
        state.module = moduleNamed(state.module, whole ? std::string(name) : outer + '.' + std::string(name));
    }

    std::uint32_t moduleNamed(std::uint32_t parent, const std::string& name)
    {
        if (name.empty())
            return 0;
        const auto [known, isNew] = moduleAt_.try_emplace(name, static_cast<std::uint32_t>(step_.modules.size()));
        if (isNew)
            step_.modules.push_back({name, parent});
        return known->second;
    }

    /// An optimizer without a label consists of the ops after backward.
    void guessOptimizer()
    {
        const auto last = std::find_if(step_.ops.rbegin(), step_.ops.rend(),
                                       [](const ProfiledOp& op) { return op.phase == Phase::backward; });
        if (last == step_.ops.rend())
            return;
        for (auto op = last.base(); op != step_.ops.end(); ++op)
            if (op->phase == Phase::forward)
                op->phase = Phase::optimizer;
    }

    /// Sets issueMs from the begin of the next op on the thread. A longer time is a wait for data, the GPU or a full
    /// queue.
    void followIssue()
    {
        constexpr double longestMs = 0.3;
        std::unordered_map<std::uint32_t, ProfiledOp*> last;
        for (ProfiledOp& op : step_.ops) {
            ProfiledOp*& before = last[op.span->thread];
            if (before)
                if (const double ms = milliseconds(op.span->begin - before->span->begin); ms <= longestMs)
                    before->issueMs = ms;
            before = &op;
        }
    }

    void account()
    {
        std::vector<const Profile::Kernel*> kernels(tree_.kernels().begin(), tree_.kernels().end());
        std::ranges::sort(kernels, {}, &Profile::Kernel::begin);
        Nanoseconds busy = 0;
        Nanoseconds sum = 0;
        Nanoseconds end = kernels.empty() ? 0 : kernels.front()->begin;
        for (const Profile::Kernel* kernel : kernels) {
            sum += kernel->end - kernel->begin;
            busy += std::max<Nanoseconds>(0, kernel->end - std::max(end, kernel->begin));
            end = std::max(end, kernel->end);
        }
        step_.kernels = static_cast<std::int64_t>(kernels.size());
        step_.kernelMs = milliseconds(sum);
        step_.busyMs = milliseconds(busy);
        step_.withoutOpMs = milliseconds(tree_.withoutSpan());
        step_.spanMs = kernels.empty() ? 0 : milliseconds(end - kernels.front()->begin);
        step_.stepMs = std::max(milliseconds(window_.end - window_.begin), step_.spanMs);
        for (const ProfiledOp& op : step_.ops)
            step_.cpuMs += op.cpuMs;
        for (const Profile::Launch& launch : profile_.launches)
            if (window_.begin <= launch.begin && launch.begin < window_.end
                && profile_.texts[launch.name].find("ynchronize") != std::string_view::npos)
                step_.synchronizationMs += milliseconds(launch.end - launch.begin);
    }

    const Profile& profile_;
    SpanTree tree_;
    ProfileWindow window_;
    std::vector<State> states_; ///< by node
    std::vector<std::int64_t> sequences_; ///< of ops before sorting
    std::unordered_map<std::int64_t, Forward> moduleOfSequence_;
    std::map<std::string, std::uint32_t> moduleAt_;
    bool namesOptimizer_ = false;
    ProfiledStep step_;
};

std::unordered_set<std::string_view> compositeNames()
{
    std::unordered_set<std::string_view> names;
    std::string_view rest = compositeOps();
    while (!rest.empty()) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
        if (!line.empty() && line.front() != '#')
            names.insert(line);
    }
    return names;
}

} // namespace

ProfiledStep profiledStep(const Profile& profile, const ProfileWindow& window)
{
    return StepReader(profile, window).read();
}

bool isCompositeOp(std::string_view name)
{
    static const std::unordered_set<std::string_view> names = compositeNames();
    constexpr std::string_view aten = "aten::";
    return name.starts_with(aten) && names.contains(name.substr(aten.size()));
}

} // namespace headroom
