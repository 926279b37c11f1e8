// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/torchscript_modules.h"

#include "core/device/source_frames.h"
#include "core/record/module_call.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/custom_operator.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <ranges>
#include <string>
#include <tuple>
#include <utility>

namespace headroom {

/// The open module calls of a thread.
struct ModuleCalls
{
    struct OpenCall
    {
        CallId call;
        std::unique_ptr<ModuleCallHandler::Open> handled;
    };
    static thread_local const TorchScriptModules* modules; ///< null: calls are not reported
    static thread_local std::vector<OpenCall> open;
    static thread_local std::exception_ptr refusal;

    static void enter(torch::jit::Stack& stack);
    static void exit(torch::jit::Stack& stack);
    /// Ends the calls that an exception left, the innermost first.
    static void leaveAll();
};
thread_local const TorchScriptModules* ModuleCalls::modules = nullptr;
thread_local std::vector<ModuleCalls::OpenCall> ModuleCalls::open;
thread_local std::exception_ptr ModuleCalls::refusal;

/// Runs a module's forward once more, in the thread of backward.
class TorchScriptModules::RunAgain
{
public:
    RunAgain(const TorchScriptModules& modules, c10::intrusive_ptr<c10::ivalue::Object> module)
        : modules_(&modules)
        , module_(std::move(module))
    {
    }
    Values operator()(const Values& inputs) const
    {
        const ModuleCallScope unhandled(nullptr);
        const UnoptimizedScope unoptimized;
        const CallsOfItsOwn calls(*modules_);
        return {torch::jit::Module(module_).forward(inputs)};
    }

private:
    /// Reports calls in a thread that may have other open calls.
    class CallsOfItsOwn
    {
    public:
        explicit CallsOfItsOwn(const TorchScriptModules& modules)
            : modules_(std::exchange(ModuleCalls::modules, &modules))
            , open_(std::exchange(ModuleCalls::open, {}))
        {
        }
        ~CallsOfItsOwn()
        {
            ModuleCalls::leaveAll();
            ModuleCalls::modules = modules_;
            ModuleCalls::open = std::move(open_);
        }
        CallsOfItsOwn(const CallsOfItsOwn&) = delete;
        CallsOfItsOwn& operator=(const CallsOfItsOwn&) = delete;

    private:
        const TorchScriptModules* modules_;
        std::vector<ModuleCalls::OpenCall> open_;
    };

    const TorchScriptModules* modules_;
    c10::intrusive_ptr<c10::ivalue::Object> module_;
};

namespace {

constexpr const char* enterName = "headroom::module_enter";
constexpr const char* exitName = "headroom::module_exit";

/// Pops the arguments of an operator with any number of them: the module, other values, and the number of both.
std::vector<c10::IValue> takeArguments(torch::jit::Stack& stack)
{
    const auto count = static_cast<std::size_t>(torch::jit::pop(stack).toInt());
    std::vector<c10::IValue> arguments(stack.end() - static_cast<std::ptrdiff_t>(count), stack.end());
    torch::jit::drop(stack, count);
    return arguments;
}

std::vector<at::Tensor> tensorsAfterTheFirst(const std::vector<c10::IValue>& values)
{
    std::vector<at::Tensor> tensors;
    for (std::size_t i = 1; i < values.size(); ++i)
        collectTensors(values[i], tensors);
    return tensors;
}

/// The operators are conservative, so that the interpreter neither moves nor removes the calls.
const torch::jit::RegisterOperators operators({
    torch::jit::Operator(std::string(enterName) + "(...) -> ()", ModuleCalls::enter,
                         c10::AliasAnalysisKind::CONSERVATIVE),
    torch::jit::Operator(std::string(exitName) + "(...) -> ()", ModuleCalls::exit,
                         c10::AliasAnalysisKind::CONSERVATIVE),
});

/// Returns "Linear" for the class "__torch__.torch.nn.modules.linear.___torch_mangle_3.Linear".
std::string typeName(const torch::jit::Module& module)
{
    return module.type()->name() ? module.type()->name()->name() : "Module";
}

} // namespace

void ModuleCalls::enter(torch::jit::Stack& stack)
{
    const std::vector<c10::IValue> arguments = takeArguments(stack);
    if (!modules)
        return;
    TORCH_CHECK(!arguments.empty() && arguments.front().isObject(), "a file may not call ", enterName);
    open.emplace_back();
    const auto id = modules->ids_.find(arguments.front().toObject().get());
    if (id == modules->ids_.end())
        return;
    if (ModuleCallHandler* handler = ModuleCallHandler::of(id->second))
        open.back().handled = handler->open(id->second, Values(arguments.begin() + 1, arguments.end()),
                                            TorchScriptModules::RunAgain(*modules, arguments.front().toObject()));
    std::vector<at::Tensor> tensors = tensorsAfterTheFirst(arguments);
    // A trace passes a tied weight as an argument to the module that does not own it; nn.Module's forward has no such
    // argument.
    std::erase_if(tensors, [](const at::Tensor& t) { return modules->registered_.contains(t.unsafeGetTensorImpl()); });
    open.back().call = Recorder::enter(id->second, tensors);
}

void ModuleCalls::exit(torch::jit::Stack& stack)
{
    const std::vector<c10::IValue> results = takeArguments(stack);
    if (!modules || open.empty())
        return;
    const OpenCall call = std::move(open.back());
    open.pop_back();
    if (call.call.valid())
        Recorder::exit(call.call, tensorsAfterTheFirst(results));
    if (!call.handled)
        return;
    try {
        call.handled->complete();
    } catch (const ModuleCallError&) {
        refusal = std::current_exception();
        throw;
    }
}

void ModuleCalls::leaveAll()
{
    for (; !open.empty(); open.pop_back())
        if (open.back().call.valid())
            Recorder::exit(open.back().call, {});
}

UnoptimizedScope::UnoptimizedScope()
    : before_(torch::jit::getGraphExecutorOptimize())
{
    torch::jit::setGraphExecutorOptimize(false);
}

UnoptimizedScope::~UnoptimizedScope()
{
    torch::jit::setGraphExecutorOptimize(before_);
}

TorchScriptModules::TorchScriptModules(const torch::jit::Module& root, TorchScriptLines lines)
    : lines_(std::move(lines))
{
    add(root, typeName(root), ModuleId());
    for (const ModelTree::Registered& registered : tree_.registered)
        registered_.insert(registered.tensor.unsafeGetTensorImpl());
}

void TorchScriptModules::add(const torch::jit::Module& module, const std::string& fqn, ModuleId parent)
{
    const ModuleId id(static_cast<std::uint32_t>(tree_.modules.size()));
    if (!ids_.emplace(module._ivalue().get(), id).second)
        return;
    tree_.modules.push_back({fqn, typeName(module), parent});
    for (const auto& parameter : module.named_parameters(/*recurse=*/false))
        tree_.registered.push_back({id, parameter.name, parameter.value, Category::parameter});
    for (const auto& buffer : module.named_buffers(/*recurse=*/false))
        if (buffer.value.defined())
            tree_.registered.push_back({id, buffer.name, buffer.value, Category::buffer});
    announceCalls(module);
    for (const auto& child : module.named_children())
        add(child.value, fqn + "." + child.name, id);
}

void TorchScriptModules::announceCalls(const torch::jit::Module& module)
{
    const auto forward = module.find_method("forward");
    if (!forward)
        return;
    const std::shared_ptr<torch::jit::Graph> graph = torch::jit::toGraphFunction(forward->function()).graph();
    const auto enterSymbol = c10::Symbol::fromQualString(enterName);
    // Modules of the same class share the graph, possibly with nodes already.
    const torch::jit::Node* first = *graph->nodes().begin();
    if (first->kind() == enterSymbol)
        return;
    graph->prependNode(graph->create(enterSymbol, graph->inputs(), 0));
    std::vector<torch::jit::Value*> results{graph->inputs()[0]};
    results.insert(results.end(), graph->outputs().begin(), graph->outputs().end());
    graph->appendNode(graph->create(c10::Symbol::fromQualString(exitName), results, 0));
}

FrameId TorchScriptModules::runningFrame()
{
    using Frame = std::tuple<FrameId, std::string, std::uint32_t, std::string>;
    static auto& known = *new std::map<Frame, FrameId>; // never destroyed: threads may run after main()
    static std::mutex mutex;
    if (!ModuleCalls::modules)
        return {};
    FrameId innermost;
    const auto add = [&](const TorchScriptLines::Line& line) {
        const std::lock_guard lock(mutex);
        const auto [row, isNew] = known.try_emplace({innermost, line.file, line.line, line.function});
        if (isNew)
            row->second = sim::addFrame({innermost, line.file, line.function, line.line});
        innermost = row->second;
    };
    const std::vector<torch::jit::StackEntry> stack = torch::jit::currentCallstack(); // innermost first
    for (const torch::jit::StackEntry& entry : std::views::reverse(stack)) {
        const auto place = entry.range.source() ? entry.range.file_line_col() : std::nullopt;
        if (!place)
            continue;
        const auto& [file, line, column] = *place;
        const std::string& function = entry.filename; // which holds the function's name
        std::vector<TorchScriptLines::Line> python = ModuleCalls::modules->lines_.at(file, entry.range.start());
        if (python.empty()) { // the code in the model's file is no file of Python
            const std::size_t name = file.find_last_of('/') + 1;
            add({file.substr(0, name) + "TorchScript of " + file.substr(name), function,
                 static_cast<std::uint32_t>(line)});
            continue;
        }
        if (python.front().function.empty())
            python.front().function = function;
        else
            innermost = {}; // a trace has the whole stack
        std::ranges::for_each(python, add);
    }
    return innermost;
}

TorchScriptModules::Announce::Announce(const TorchScriptModules& modules)
{
    ModuleCalls::modules = &modules;
    sim::setFrameFinder(runningFrame);
}

TorchScriptModules::Announce::~Announce()
{
    sim::setFrameFinder(nullptr);
    ModuleCalls::leaveAll();
    ModuleCalls::modules = nullptr;
}

void TorchScriptModules::Announce::rethrowRefusal()
{
    if (const std::exception_ptr refusal = std::exchange(ModuleCalls::refusal, nullptr))
        std::rethrow_exception(refusal);
}

void collectTensors(const c10::IValue& value, std::vector<at::Tensor>& tensors)
{
    if (value.isTensor()) {
        if (value.toTensor().defined())
            tensors.push_back(value.toTensor());
    } else if (value.isList()) {
        for (const c10::IValue& item : value.toListRef())
            collectTensors(item, tensors);
    } else if (value.isTuple()) {
        for (const c10::IValue& item : value.toTupleRef().elements())
            collectTensors(item, tensors);
    } else if (value.isGenericDict()) {
        for (const auto& item : value.toGenericDict())
            collectTensors(item.value(), tensors);
    }
}

} // namespace headroom
