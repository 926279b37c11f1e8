// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/snapshot/stack_meaning.h"

#include <algorithm>
#include <array>

namespace headroom {

namespace {

/// A frame with its texts. Backslashes of Windows are replaced by slashes.
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

/// Whether it is an op that others call to allocate their results.
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

/// Whether the frame is code of PyTorch, which the program's code calls.
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

} // namespace headroom
