// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/printable_text.h"
#include "core/base/try.h"
#include "core/model/settings.h"
#include "core/model/source.h"
#include "core/model/torchscript_file.h"
#include "core/model/torchscript_modules.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/runtime/print_handler.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <new>
#include <set>
#include <vector>

namespace headroom {
namespace {

/// The arguments of a TorchScript model's forward. A traced model has the shapes of inputs; a scripted model needs
/// --input. Integers are zero, a valid index of any tensor.
class TorchScriptInputs
{
public:
    /// Makes the arguments. Errors (badInput): an argument of unknown shape or value, an --input that forward
    /// does not have, a requested size for which the model has no dimension.
    static Result<TorchScriptInputs> make(const TorchScriptFile& file, const c10::FunctionSchema& forward,
                                          const ModelRequest& request);

    const std::vector<c10::IValue>& arguments() const { return arguments_; }
    const std::vector<at::Tensor>& tensors() const { return tensors_; } ///< the tensors in arguments(), on the device
    std::int64_t batch() const { return batch_; }
    std::int64_t sequence() const { return sequence_; } ///< 0: there is none
    /// Returns the inputs as "ids=2x64:int64", for messages.
    const std::string& text() const { return text_; }

private:
    friend class InputMaker;

    std::vector<c10::IValue> arguments_;
    std::vector<at::Tensor> tensors_;
    std::int64_t batch_ = 0;
    std::int64_t sequence_ = 0;
    std::string text_;
};

constexpr std::int64_t mostSamples = std::int64_t(1) << 32;

struct Refused
{
    std::string message;
};

using Shape = std::vector<std::int64_t>;

/// Replaces the sizes of batch and sequence in the file or --input by the requested sizes.
struct Resize
{
    std::int64_t batch = 0; ///< 0: there is none
    std::int64_t sequence = 0;
    std::int64_t newBatch = 0;
    std::int64_t newSequence = 0;

    /// Resizes an input that has the batch dimension. The sequence is the second dimension; a mask of four dimensions
    /// may have the sequence in any place.
    Shape operator()(Shape sizes) const
    {
        if (batch == 0 || sizes.empty() || sizes.front() != batch)
            return sizes;
        sizes.front() = newBatch;
        for (std::size_t i = 1; sequence != 0 && i < sizes.size(); ++i)
            if (sizes[i] == sequence && (i == 1 || sizes.size() == 4))
                sizes[i] = newSequence;
        return sizes;
    }
};

/// Makes the arguments of forward; throws Refused.
class InputMaker
{
public:
    InputMaker(const TorchScriptFile& file, const ModelRequest& request, TorchScriptInputs& inputs)
        : file_(file)
        , request_(request)
        , inputs_(inputs)
    {
    }
    void make(const c10::FunctionSchema& forward);

private:
    /// The known shape of a tensor.
    struct Known
    {
        Shape sizes;
        at::ScalarType dtype = at::kFloat;
    };

    void findTraced(std::size_t arguments);
    void findAsked(const c10::FunctionSchema& forward);
    void chooseSizes(const c10::FunctionSchema& forward);
    const Pickle::Value* traced(std::size_t index) const;
    std::optional<Known> knownTensor(const c10::Argument& argument, std::size_t index) const;
    Known ofTrace(const Pickle::Value& value) const;

    c10::IValue argument(const c10::Argument& argument, std::size_t index);
    c10::IValue tracedValue(const Pickle::Value& value, const std::string& name);
    at::Tensor tensor(const Known& known, const std::string& name);
    [[noreturn]] void refuseUnknown(const c10::Argument& argument) const;

    const TorchScriptFile& file_;
    const ModelRequest& request_;
    TorchScriptInputs& inputs_;
    const Pickle::Value* traced_ = nullptr; ///< list of forward's arguments in the trace; null: not known
    Resize resize_;
};

void InputMaker::make(const c10::FunctionSchema& forward)
{
    findTraced(forward.arguments().size() - 1);
    findAsked(forward);
    chooseSizes(forward);
    for (std::size_t i = 1; i < forward.arguments().size(); ++i) // the first is the module itself
        inputs_.arguments_.push_back(argument(forward.arguments()[i], i - 1));
    if (inputs_.tensors_.empty())
        throw Refused{file_.name() + " has a forward that takes no tensor, so there is no batch to train with"};
    inputs_.batch_ = resize_.newBatch;
    inputs_.sequence_ = resize_.newSequence;
}

void InputMaker::findTraced(std::size_t arguments)
{
    if (!file_.tracedInputs())
        return;
    const Pickle& pickle = *file_.tracedInputs();
    const Pickle::Value* list = pickle.find(pickle.root(), "forward");
    if (list && list->type == Pickle::Type::list && list->items.size() <= arguments)
        traced_ = list;
}

void InputMaker::findAsked(const c10::FunctionSchema& forward)
{
    std::set<std::string> seen;
    for (const InputShape& input : request_.inputs) {
        std::string names;
        bool found = false;
        for (std::size_t i = 1; i < forward.arguments().size(); ++i) {
            const std::string& name = forward.arguments()[i].name();
            names += (names.empty() ? "" : ", ") + name;
            found |= name == input.name;
        }
        if (!found)
            throw Refused{"--input " + input.name + ": forward of " + file_.name() + " has no such argument, but "
                          + names};
        if (!seen.insert(input.name).second)
            throw Refused{"--input " + input.name + " is given twice; expected a single shape"};
    }
}

const Pickle::Value* InputMaker::traced(std::size_t index) const
{
    return traced_ && index < traced_->items.size() ? &file_.tracedInputs()->value(traced_->items[index]) : nullptr;
}

InputMaker::Known InputMaker::ofTrace(const Pickle::Value& value) const
{
    const Pickle::Tensor& tensor = file_.tracedInputs()->tensors()[static_cast<std::size_t>(value.integer)];
    return {tensor.sizes, tensor.dtype};
}

/// Returns the shape of --input, or the shape in the trace; nullopt: neither is there.
std::optional<InputMaker::Known> InputMaker::knownTensor(const c10::Argument& argument, std::size_t index) const
{
    std::optional<Known> known;
    const Pickle::Value* value = traced(index);
    if (value && value->type == Pickle::Type::tensor)
        known = ofTrace(*value);
    const auto asked = std::ranges::find(request_.inputs, argument.name(), &InputShape::name);
    if (asked == request_.inputs.end())
        return known;
    const at::ScalarType dtype = asked->dtype.value_or(known ? known->dtype : at::kFloat);
    return Known{asked->sizes, dtype};
}

/// Finds the batch and the sequence: the first dimension of the first tensor is the batch; the second dimension of
/// tokens (integers of two dimensions) or of features (three dimensions) is the sequence.
void InputMaker::chooseSizes(const c10::FunctionSchema& forward)
{
    for (std::size_t i = 1; i < forward.arguments().size() && resize_.batch == 0; ++i) {
        const auto known = knownTensor(forward.arguments()[i], i - 1);
        if (!known || known->sizes.empty())
            continue;
        resize_.batch = known->sizes.front();
        const bool tokens = known->sizes.size() == 2 && at::isIntegralType(known->dtype, /*includeBool=*/false);
        if (tokens || known->sizes.size() == 3)
            resize_.sequence = known->sizes[1];
    }
    const auto choose = [&](const char* option, std::int64_t asked, std::int64_t standard, const char* dimension) {
        if (asked != 0 && standard == 0)
            throw Refused{std::string(option) + ": the inputs of " + file_.name() + " have no known " + dimension
                          + "; leave the option out, or give shapes with --input"};
        const auto size = chosenSize(option, asked, standard, mostSamples);
        if (!size)
            throw Refused{size.error().message};
        return *size;
    };
    resize_.newBatch = choose("--batch", request_.batch, resize_.batch, "batch dimension");
    resize_.newSequence = choose("--seq", request_.sequence, resize_.sequence, "sequence dimension");
}

c10::IValue InputMaker::argument(const c10::Argument& argument, std::size_t index)
{
    const c10::TypePtr& type = argument.type();
    const c10::TypePtr inner
        = type->kind() == c10::TypeKind::OptionalType ? type->expectRef<c10::OptionalType>().getElementType() : type;
    const bool isTensor = inner->kind() == c10::TypeKind::TensorType;
    const auto known = knownTensor(argument, index);
    if (known && isTensor)
        return tensor(*known, argument.name());
    const bool asked = std::ranges::find(request_.inputs, argument.name(), &InputShape::name) != request_.inputs.end();
    if (asked)
        throw Refused{"--input " + argument.name() + ": this argument of " + file_.name() + " is of the type "
                      + type->annotation_str() + ", not a tensor"};
    if (const Pickle::Value* value = traced(index))
        return tracedValue(*value, argument.name());
    if (argument.default_value())
        return *argument.default_value();
    if (type->kind() == c10::TypeKind::OptionalType)
        return {};
    if (isTensor)
        refuseUnknown(argument);
    throw Refused{file_.name() + ": forward takes '" + argument.name() + "' of the type " + type->annotation_str()
                  + ", without a default, and --input gives only tensors; add a default and save the model again"};
}

/// Makes a tensor, or a list, tuple or dictionary of tensors, with the shapes in the trace.
c10::IValue InputMaker::tracedValue(const Pickle::Value& value, const std::string& name)
{
    const Pickle& pickle = *file_.tracedInputs();
    const auto item = [&](std::size_t index) { return tracedValue(pickle.value(value.items[index]), name); };
    switch (value.type) {
    case Pickle::Type::tensor:
        return tensor(ofTrace(value), name);
    case Pickle::Type::tuple: {
        std::vector<c10::IValue> items;
        for (std::size_t i = 0; i < value.items.size(); ++i)
            items.push_back(item(i));
        return c10::ivalue::Tuple::create(std::move(items));
    }
    case Pickle::Type::list: {
        c10::List<at::Tensor> list;
        for (std::size_t i = 0; i < value.items.size(); ++i)
            list.push_back(item(i).toTensor());
        return list;
    }
    case Pickle::Type::dictionary: {
        c10::Dict<std::string, at::Tensor> dictionary;
        for (std::size_t i = 0; i + 1 < value.items.size(); i += 2)
            dictionary.insert(pickle.value(value.items[i]).text, item(i + 1).toTensor());
        return dictionary;
    }
    default:
        throw Refused{file_.name() + " was traced with '" + name
                      + "' as something that is no tensor; trace the model again with tensors only"};
    }
}

at::Tensor InputMaker::tensor(const Known& known, const std::string& name)
{
    const Shape sizes = resize_(known.sizes);
    double bytes = static_cast<double>(c10::elementSize(known.dtype));
    for (const std::int64_t size : sizes)
        bytes *= static_cast<double>(size);
    if (const Status size = checkStepSize(file_.name(), bytes); !size)
        throw Refused{size.error().message};
    const auto options = at::TensorOptions().device(request_.device).dtype(known.dtype);
    const bool random = computes(request_.device) && at::isFloatingType(known.dtype);
    const at::Tensor made = random ? at::randn(sizes, options) : at::zeros(sizes, options);
    inputs_.tensors_.push_back(made);
    inputs_.text_ += (inputs_.text_.empty() ? "" : " ") + name + "=" + shapeText(sizes) + ":" + dtypeName(known.dtype);
    return made;
}

void InputMaker::refuseUnknown(const c10::Argument& argument) const
{
    throw Refused{file_.name() + " was scripted, not traced, and states no size for the input '" + argument.name()
                  + "'; pass --input " + argument.name() + "=SHAPE[:DTYPE], for example --input " + argument.name()
                  + "=8x128 or --input " + argument.name() + "=8x128:int64"};
}

Result<TorchScriptInputs> TorchScriptInputs::make(const TorchScriptFile& file, const c10::FunctionSchema& forward,
                                                  const ModelRequest& request)
{
    TorchScriptInputs inputs;
    try {
        InputMaker(file, request, inputs).make(forward);
    } catch (const Refused& refused) {
        return badInput(refused.message);
    }
    return inputs;
}

class TorchScriptSource final : public ModelSource
{
public:
    TorchScriptSource(std::string name, torch::jit::Module module, TorchScriptLines lines, TorchScriptInputs inputs)
        : name_(std::move(name))
        , module_(std::move(module))
        , modules_(module_, std::move(lines))
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
        return badInput(request.name + " has no method forward, needed for a training step");
    if (module.parameters().size() == 0)
        return badInput(request.name
                        + " has no parameters; a frozen model cannot be trained, save the model before freezing");
    const at::ScalarType dtype = (*module.parameters().begin()).scalar_type();
    if (request.dtype.value_or(dtype) != dtype)
        return badInput("--dtype " + dtypeName(*request.dtype) + ": " + request.name + " states its own types, "
                        + dtypeName(dtype) + " first; leave --dtype out, or save the model in the other type");
    if (request.lifetimes.value_or(Lifetimes::graph) != Lifetimes::graph)
        return badInput("--lifetimes frame: " + request.name
                        + " runs in TorchScript, and TorchScript frees a value at the last use; leave --lifetimes out");
    ASSIGN_OR_RETURN(auto inputs,
                     TorchScriptInputs::make(file, module.get_method("forward").function().getSchema(), request));
    try {
        if (!request.device.is_cpu())
            moveToDevice(module, request.device);
        module.train();
        return std::unique_ptr<ModelSource>(
            std::make_unique<TorchScriptSource>(request.name, std::move(module), file.lines(), std::move(inputs)));
    } catch (const c10::Error& error) {
        return badInput(request.name + " cannot be put on " + request.device.str() + ": " + firstLine(error));
    }
}

} // namespace headroom
