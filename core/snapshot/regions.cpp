// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/snapshot/regions.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace headroom {

namespace {

/// A frame with texts. Backslashes of Windows are replaced by slashes.
struct FrameText
{
    std::string_view function;
    std::string file;
    int line = 0;
};

FrameText frameText(const Snapshot& snapshot, Snapshot::Index row)
{
    const Snapshot::Frame& frame = snapshot.frames[row];
    FrameText text{snapshot.text(frame.function), std::string(snapshot.text(frame.file)), frame.line};
    std::ranges::replace(text.file, '\\', '/');
    return text;
}

bool inFile(const FrameText& frame, std::string_view end)
{
    return frame.file.ends_with(end);
}

std::string_view fileName(const FrameText& frame)
{
    const std::string_view file = frame.file;
    return file.substr(file.find_last_of('/') + 1);
}

std::string stem(const FrameText& frame)
{
    std::string name(fileName(frame));
    if (const std::size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0)
        name.resize(dot);
    std::ranges::replace(name, '.', '_');
    return name.empty() ? "module" : name;
}

/// Returns "addmm" for a frame such as `at::_ops::addmm::call(at::Tensor const&, …)`; empty for others.
std::string_view dispatchedOp(std::string_view function)
{
    constexpr std::string_view prefix = "at::_ops::";
    if (!function.starts_with(prefix))
        return {};
    const std::string_view rest = function.substr(prefix.size());
    return rest.substr(0, rest.find("::"));
}

/// Returns the op's name as PyTorch prints it: aten.mul.Tensor for "mul_Tensor". Only the most common names of
/// overloads are recognized.
std::string opName(std::string_view dispatched)
{
    std::string name = "aten." + std::string(dispatched);
    for (const std::string_view overload : {"_Tensor", "_Scalar"}) {
        if (const std::size_t place = name.find(overload); place != std::string::npos) {
            name[place] = '.';
            break;
        }
    }
    return name;
}

/// Whether other ops call the op to allocate results.
bool onlyAllocates(std::string_view op)
{
    constexpr std::array names{"empty", "new_empty", "resize_", "set_", "as_strided", "zeros", "ones", "full"};
    return std::ranges::any_of(names, [&](std::string_view name) { return op.starts_with(name); });
}

/// Returns "AddmmBackward0" for `torch::autograd::generated::AddmmBackward0::apply(…)`; empty for others.
std::string_view backwardNode(std::string_view function)
{
    if (!function.starts_with("torch::autograd::"))
        return {};
    const std::size_t end = function.find("::apply(");
    if (end == std::string_view::npos)
        return {};
    const std::string_view path = function.substr(0, end);
    const std::string_view name = path.substr(path.rfind(':') + 1);
    return name.find("Backward") != std::string_view::npos || name == "AccumulateGrad" ? name : std::string_view();
}

bool isBackward(const FrameText& frame)
{
    return frame.function.starts_with("torch::autograd::Engine::evaluate_function")
        || (frame.function == "_engine_run_backward" && inFile(frame, "torch/autograd/graph.py"))
        || (frame.function == "backward"
            && (inFile(frame, "torch/_tensor.py") || inFile(frame, "torch/autograd/__init__.py")));
}

bool isOptimizer(const FrameText& frame)
{
    return frame.file.find("torch/optim/") != std::string::npos && !inFile(frame, "torch/optim/lr_scheduler.py");
}

bool makesParameters(const FrameText& frame)
{
    if (inFile(frame, "torch/nn/modules/module.py"))
        return frame.function == "_apply" || frame.function == "to" || frame.function == "cuda";
    return inFile(frame, "torch/nn/init.py") || inFile(frame, "torch/nn/parameter.py");
}

/// Whether the frame is code of PyTorch, called by the program's code.
bool isTorchs(const FrameText& frame)
{
    constexpr std::array folders{"-packages/torch/", "/pytorch/torch/"};
    return frame.file.starts_with("torch/") || std::ranges::any_of(folders, [&](const char* folder) {
               return frame.file.find(folder) != std::string::npos;
           });
}

std::string pythonOp(const FrameText& frame)
{
    return std::string(frame.function) + " (" + std::string(fileName(frame)) + ":" + std::to_string(frame.line) + ")";
}

bool isPython(const FrameText& frame)
{
    return frame.file.ends_with(".py") || frame.file.starts_with('<');
}

} // namespace

StackMeaning stackMeaning(const Snapshot& snapshot, Snapshot::Index stack)
{
    StackMeaning meaning;
    std::string python; // innermost Python frame
    std::string allocating; // innermost op that only allocates
    int callLine = 0; // line in the enclosing forward that calls the next module
    bool called = false;
    bool constructs = false; // the innermost frame that is not PyTorch's, or one of torch.nn, is a constructor
    std::vector<FrameText> frames;
    for (const Snapshot::Index row : snapshot.stack(stack))
        frames.push_back(frameText(snapshot, row));
    std::ranges::reverse(frames); // outermost first
    meaning.empty = frames.empty();
    for (const FrameText& frame : frames) {
        if (const std::string_view op = dispatchedOp(frame.function); !op.empty())
            (onlyAllocates(op) ? allocating : meaning.op) = opName(op);
        if (const std::string_view node = backwardNode(frame.function); !node.empty())
            meaning.node = node;
        meaning.makesParameters |= makesParameters(frame);
        if (isOptimizer(frame))
            meaning.phase = frame.function == "zero_grad" ? Phase::zeroGrad : Phase::optimizer;
        else if (frame.function == "zero_grad")
            meaning.phase = Phase::zeroGrad;
        else if (isBackward(frame) || !meaning.node.empty())
            meaning.phase = Phase::backward;
        if (!isPython(frame))
            continue;
        python = pythonOp(frame);
        if (!isTorchs(frame) || frame.file.find("torch/nn/modules/") != std::string::npos)
            constructs = frame.function == "__init__";
        if (inFile(frame, "torch/nn/modules/module.py")) {
            called |= frame.function == "_call_impl";
            continue;
        }
        if (called && frame.function == "forward")
            meaning.modules.push_back(meaning.modules.empty() ? stem(frame)
                                                              : stem(frame) + ":" + std::to_string(callLine));
        called = false;
        callLine = frame.line;
    }
    if (meaning.op.empty())
        meaning.op = allocating.empty() ? python : allocating;
    if (!meaning.phase && !meaning.modules.empty())
        meaning.phase = Phase::forward;
    // torch.device("cuda") as a context, or Linear(…, device="cuda"): the memory is taken by a constructor.
    meaning.makesParameters |= constructs && !meaning.phase;
    return meaning;
}

namespace {

constexpr std::size_t longestName = 200; ///< characters of a region's name
constexpr std::size_t mostDepth = 64; ///< levels of nested regions

bool isDottedName(std::string_view name)
{
    return !name.empty() && name.front() != '.' && name.back() != '.' && name.find("..") == std::string_view::npos
        && std::ranges::all_of(
            name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; });
}

std::optional<Phase> namedPhase(std::string_view name)
{
    std::string lower(name.substr(0, longestName));
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto has = [&](std::string_view word) { return lower.find(word) != std::string::npos; };
    if (has("zero_grad"))
        return Phase::zeroGrad;
    if (has("optimizer"))
        return Phase::optimizer;
    if (has("backward"))
        return Phase::backward;
    if (has("forward"))
        return Phase::forward;
    return std::nullopt;
}

} // namespace

RegionTree::RegionTree()
{
    regions_.push_back({"Snapshot", {}, {}});
}

RegionTree::Node RegionTree::child(Node parent, const std::string& name)
{
    const auto [place, isNew] = regions_[parent].children.try_emplace(name, static_cast<Node>(regions_.size()));
    const Node node = place->second;
    if (isNew) {
        regions_[parent].order.push_back(node);
        regions_.push_back({name, {}, {}});
    }
    return node;
}

RegionTree::Node RegionTree::named(std::string_view name)
{
    name = name.substr(0, longestName);
    if (!isDottedName(name)) {
        std::string whole(name);
        std::ranges::replace(whole, '.', '_');
        return child(0, whole);
    }
    Node node = 0;
    for (std::size_t depth = 0; depth < mostDepth && !name.empty(); ++depth) {
        const std::string_view part = name.substr(0, name.find('.'));
        node = child(node, std::string(part));
        name.remove_prefix(std::min(part.size() + 1, name.size()));
    }
    return node;
}

void RegionTree::addTo(StepTraceBuilder& builder)
{
    modules_.assign(regions_.size(), {});
    add(builder, 0, {}, {});
}

void RegionTree::add(StepTraceBuilder& builder, Node node, const std::string& fqn, ModuleId parent)
{
    const Region& region = regions_[node];
    const std::string own = fqn.empty() ? region.name : fqn + "." + region.name;
    const std::size_t line = region.name.find(':'); // the line of the call is not a part of the type
    modules_[node] = builder.addModule(own, region.name.substr(0, line), parent);
    for (const Node child : region.order)
        add(builder, child, own, modules_[node]);
}

std::vector<std::string> RegionTree::paths() const
{
    std::vector<std::string> paths(regions_.size());
    for (Node node = 0; node < regions_.size(); ++node) // a child comes after its parent
        for (const Node child : regions_[node].order)
            paths[child] = (node == 0 ? std::string() : paths[node] + ".") + regions_[child].name;
    return paths;
}

Annotations::Annotations(const Snapshot& snapshot, std::size_t device)
    : snapshot_(snapshot)
{
    std::ranges::copy_if(snapshot.annotations, std::back_inserter(all_), [&](const Snapshot::Annotation& annotation) {
        return annotation.device == static_cast<std::int64_t>(device) && annotation.name != Snapshot::none;
    });
    std::ranges::stable_sort(all_, {}, &Snapshot::Annotation::microseconds);
}

void Annotations::advance(std::int64_t microseconds)
{
    for (; next_ < all_.size() && all_[next_].microseconds <= microseconds; ++next_) {
        const Snapshot::Annotation& annotation = all_[next_];
        if (annotation.begins)
            open(annotation.name);
        else if (const auto found = begins_.find(annotation.name); found != begins_.end())
            close(found);
    }
}

void Annotations::open(Snapshot::Index name)
{
    begins_[name].push_back(next_);
    if (const auto phase = namedPhase(snapshot_.text(name)))
        phases_.emplace(next_, *phase);
    else
        others_.emplace(next_, name);
}

void Annotations::close(Begins::iterator name)
{
    const std::size_t begin = name->second.back();
    phases_.erase(begin);
    others_.erase(begin);
    name->second.pop_back();
    if (name->second.empty())
        begins_.erase(name);
}

std::optional<Phase> Annotations::phase() const
{
    return phases_.empty() ? std::nullopt : std::optional(phases_.rbegin()->second);
}

std::string_view Annotations::innermost() const
{
    return others_.empty() ? std::string_view() : snapshot_.text(others_.rbegin()->second);
}

EventMeanings::EventMeanings(const Snapshot& snapshot, std::size_t device, bool hasStacks)
    : snapshot_(snapshot)
    , annotations_(snapshot, device)
    , hasStacks_(hasStacks)
{
}

const StackMeaning& EventMeanings::stack(Snapshot::Index stack)
{
    const auto [place, isNew] = stacks_.try_emplace(stack);
    if (isNew)
        place->second = stackMeaning(snapshot_, stack);
    return place->second;
}

EventMeanings::Meaning EventMeanings::of(const Snapshot::Event& event)
{
    annotations_.advance(event.microseconds);
    Meaning meaning;
    meaning.stack = &stack(event.stack);
    if (meaning.stack->phase)
        meaning.phase = *meaning.stack->phase;
    else if (const auto phase = annotations_.phase())
        meaning.phase = *phase;
    else if (meaning.stack->empty)
        meaning.phase = hasStacks_ && event.action == Snapshot::Action::alloc ? Phase::backward : last_;
    else
        // The program's own code belongs to the last phase; after the optimizer or zero_grad it belongs to forward.
        meaning.phase = last_ == Phase::backward ? Phase::backward : Phase::forward;
    // Only allocations determine the phase, since a tensor may die anywhere.
    if (event.action == Snapshot::Action::alloc)
        last_ = meaning.phase;
    else
        meaning.phase = last_;
    meaning.region = regionOf(event, *meaning.stack);
    return meaning;
}

RegionTree::Node EventMeanings::regionOf(const Snapshot::Event& event, const StackMeaning& stack)
{
    if (const std::string_view name = snapshot_.text(event.metadata); !name.empty()) {
        const auto [place, isNew] = namedRegions_.try_emplace(event.metadata);
        if (isNew)
            place->second = regions_.named(name);
        return place->second;
    }
    if (!stack.modules.empty()) {
        const auto [place, isNew] = stackRegions_.try_emplace(event.stack);
        if (isNew) {
            RegionTree::Node node = 0;
            for (std::size_t i = 0; i < std::min(stack.modules.size(), mostDepth); ++i)
                node = regions_.child(node, stack.modules[i]);
            place->second = node;
        }
        return place->second;
    }
    const std::string_view annotation = annotations_.innermost();
    return annotation.empty() ? 0 : regions_.named(annotation);
}

} // namespace headroom
