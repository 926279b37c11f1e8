// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/printable_text.h"
#include "core/base/try.h"
#include "core/model/openers.h"
#include "core/model/torchscript_file.h"
#include "core/model/torchscript_inputs.h"
#include "core/model/torchscript_modules.h"

#include <c10/util/Exception.h>
#include <torch/csrc/jit/runtime/print_handler.h>

#include <atomic>
#include <iostream>
#include <new>

namespace headroom {
namespace {

class TorchScriptSource final : public ModelSource
{
public:
    TorchScriptSource(std::string name, torch::jit::Module module, TorchScriptInputs inputs)
        : name_(std::move(name))
        , module_(std::move(module))
        , modules_(module_)
        , inputs_(std::move(inputs))
    {
    }
    const ModelTree& tree() const override { return modules_.tree(); }
    const std::vector<at::Tensor>& inputs() const override { return inputs_.tensors(); }
    std::vector<at::Tensor> forward() override;
    std::int64_t batch() const override { return inputs_.batch(); }
    std::int64_t sequence() const override { return inputs_.sequence(); }
    std::vector<StepInfo::Dimension> dimensions() const override;
    Lifetimes lifetimes() const override { return Lifetimes::graph; }

private:
    std::string name_;
    torch::jit::Module module_;
    TorchScriptModules modules_;
    TorchScriptInputs inputs_;
};

/// Prints text of a model's print() or warnings.warn() on stderr, as stdout is for the summary.
void printOfModel(const std::string& text)
{
    constexpr std::size_t most = 64 * 1024; // a loop may print without an end
    static std::atomic<std::size_t> printed = 0;
    std::string_view line(text);
    line.remove_suffix(line.ends_with('\n') ? 1 : 0);
    const std::size_t before = printed.fetch_add(line.size() + 1);
    if (before < most)
        std::cerr << "the model prints: " << printableText(line.substr(0, most - before)) << '\n';
}

class ModelWarnings final : public c10::WarningHandler
{
public:
    void process(const c10::Warning& warning) override { printOfModel(warning.msg()); }
};

/// Returns the reason in a message of TorchScript's interpreter, which quotes the code before the reason.
std::string reason(const std::exception& error)
{
    const auto* known = dynamic_cast<const c10::Error*>(&error);
    std::string message = known ? known->what_without_backtrace() : error.what();
    constexpr std::string_view mark = "RuntimeError: ";
    if (const std::size_t begin = message.rfind(mark); begin != std::string::npos)
        message.erase(0, begin + mark.size());
    return message.substr(0, message.find('\n'));
}

std::vector<at::Tensor> TorchScriptSource::forward()
{
    const UnoptimizedScope unoptimized;
    const TorchScriptModules::Announce announce(modules_);
    torch::jit::setPrintHandler(printOfModel);
    ModelWarnings warnings;
    const c10::WarningUtils::WarningHandlerGuard warned(&warnings);
    std::vector<at::Tensor> results;
    try {
        collectTensors(module_.forward(inputs_.arguments()), results);
    } catch (const std::exception& error) {
        announce.rethrowRefusal();
        const std::string why = reason(error);
        if (saysOutOfMemory(why))
            throw std::bad_alloc();
        throw ModelFailed(name_ + " does not run with " + inputs_.text() + ": " + why);
    }
    if (results.empty())
        throw ModelFailed(name_ + " returns no tensor, so there is nothing to make a loss of");
    return results;
}

std::vector<StepInfo::Dimension> TorchScriptSource::dimensions() const
{
    std::vector<StepInfo::Dimension> dimensions;
    if (batch() != 0)
        dimensions.push_back({"batch", batch(), 1, 0});
    if (sequence() != 0)
        dimensions.push_back({"sequence", sequence(), 1, 0});
    return dimensions;
}

} // namespace

Result<std::unique_ptr<ModelSource>> openTorchScript(const ModelRequest& request)
{
    ASSIGN_OR_RETURN(const auto file, TorchScriptFile::open(request.name));
    const bool real = computes(request.device);
    ASSIGN_OR_RETURN(auto module, file.load(real));
    if (!module.find_method("forward"))
        return badInput(request.name + " has no method forward, which a training step runs");
    if (module.parameters().size() == 0)
        return badInput(request.name + " has no parameters; a frozen model cannot be trained, save it before freezing");
    const at::ScalarType dtype = (*module.parameters().begin()).scalar_type();
    if (request.dtype.value_or(dtype) != dtype)
        return badInput("--dtype " + dtypeName(*request.dtype) + ": " + request.name + " states its own types, "
                        + dtypeName(dtype) + " first; leave it out, or save the model in the other type");
    if (request.lifetimes.value_or(Lifetimes::graph) != Lifetimes::graph)
        return badInput("--lifetimes frame: " + request.name
                        + " is run by TorchScript, which lets go of a value at its last use; leave it out");
    ASSIGN_OR_RETURN(auto inputs,
                     TorchScriptInputs::make(file, module.get_method("forward").function().getSchema(), request));
    try {
        if (!request.device.is_cpu())
            moveToDevice(module, request.device);
        module.train();
        return std::unique_ptr<ModelSource>(
            std::make_unique<TorchScriptSource>(request.name, std::move(module), std::move(inputs)));
    } catch (const c10::Error& error) {
        return badInput(request.name + " cannot be put on " + request.device.str() + ": " + firstLine(error));
    }
}

} // namespace headroom
