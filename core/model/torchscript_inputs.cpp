// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/torchscript_inputs.h"

#include "core/model/input_shape.h"
#include "core/model/settings.h"

#include <ATen/core/jit_type.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <set>

namespace headroom {
namespace {

constexpr std::int64_t mostSamples = std::int64_t(1) << 32;

struct Refused
{
    std::string message;
};

using Shape = std::vector<std::int64_t>;

/// Replaces the sizes of batch and sequence in the file or --input by the requested ones.
struct Resize
{
    std::int64_t batch = 0; ///< 0: there is none
    std::int64_t sequence = 0;
    std::int64_t newBatch = 0;
    std::int64_t newSequence = 0;

    /// Resizes an input that has the batch dimension. The sequence is its second dimension; a mask of four dimensions
    /// may have it in any place.
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

} // namespace

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
        throw Refused{file_.name() + " has a forward that takes no tensor, so there is no batch to train it with"};
    inputs_.batch_ = resize_.newBatch;
    inputs_.sequence_ = resize_.newSequence;
}

void InputMaker::findTraced(std::size_t arguments)
{
    if (!file_.tracedInputs())
        return;
    const Pickle& pickle = *file_.tracedInputs();
    const Pickle::Value* list = pickle.find(pickle.root(), "forward");
    if (list && list->kind == Pickle::Kind::list && list->items.size() <= arguments)
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
            throw Refused{"--input " + input.name + ": forward of " + file_.name() + " has no such argument; it has "
                          + names};
        if (!seen.insert(input.name).second)
            throw Refused{"--input " + input.name + " is given twice; give it once"};
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
    if (value && value->kind == Pickle::Kind::tensor)
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
            throw Refused{std::string(option) + ": the inputs of " + file_.name() + " have no " + dimension
                          + " that is known; leave it out, or say their shapes with --input"};
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
                  + ", which has no default and which --input cannot say; give it a default and save the model again"};
}

/// Makes a tensor, or a list, tuple or dictionary of tensors, with the shapes in the trace.
c10::IValue InputMaker::tracedValue(const Pickle::Value& value, const std::string& name)
{
    const Pickle& pickle = *file_.tracedInputs();
    const auto item = [&](std::size_t index) { return tracedValue(pickle.value(value.items[index]), name); };
    switch (value.kind) {
    case Pickle::Kind::tensor:
        return tensor(ofTrace(value), name);
    case Pickle::Kind::tuple: {
        std::vector<c10::IValue> items;
        for (std::size_t i = 0; i < value.items.size(); ++i)
            items.push_back(item(i));
        return c10::ivalue::Tuple::create(std::move(items));
    }
    case Pickle::Kind::list: {
        c10::List<at::Tensor> list;
        for (std::size_t i = 0; i < value.items.size(); ++i)
            list.push_back(item(i).toTensor());
        return list;
    }
    case Pickle::Kind::dictionary: {
        c10::Dict<std::string, at::Tensor> dictionary;
        for (std::size_t i = 0; i + 1 < value.items.size(); i += 2)
            dictionary.insert(pickle.value(value.items[i]).text, item(i + 1).toTensor());
        return dictionary;
    }
    default:
        throw Refused{file_.name() + " was traced with '" + name
                      + "' as something that is no tensor; trace it again with tensors only"};
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
    throw Refused{file_.name() + " does not say how large its input '" + argument.name()
                  + "' is, as it was scripted and not traced; pass --input " + argument.name()
                  + "=SHAPE[:DTYPE], for example --input " + argument.name() + "=8x128 or --input " + argument.name()
                  + "=8x128:int64"};
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

} // namespace headroom
