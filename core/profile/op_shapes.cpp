// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/profile/profile_ops.h"

#include "core/cost/op_signature.h"
#include "core/profile/profile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom {
namespace {

using Sizes = std::vector<std::int64_t>;

/// The arguments of an op in a trace, read from the trace's lists.
struct OpArguments
{
    std::vector<TensorShape> tensors;
    std::vector<OpSignature::Value> call; ///< tensors and numbers, by position
    nlohmann::json values;

    std::string value(std::size_t position) const; ///< empty: not in the trace
    std::optional<Sizes> numbers(std::size_t position) const; ///< "[2, 2]"
};

/// Returns the sizes in a list; nullopt if an entry is not a valid size.
std::optional<Sizes> sizesIn(const nlohmann::json& list);

/// The largest number of elements: more than any memory holds, and few enough that computing with it does not overflow.
inline constexpr double mostElements = 1e14;

using Document = nlohmann::json; // files that are compiled together with this one have another short name for it

struct Type
{
    std::string_view name; ///< as written by Kineto
    std::string_view number; ///< of c10::ScalarType
    DType dtype = DType::other;
    int itemSize = 0; ///< 0: no tensor
};

constexpr std::array<Type, 16> types{{{"float", "6", DType::float32, 4},
                                      {"c10::BFloat16", "15", DType::bfloat16, 2},
                                      {"c10::Half", "5", DType::float16, 2},
                                      {"double", "7", DType::float64, 8},
                                      {"long int", "4", DType::int64, 8},
                                      {"long", "4", DType::int64, 8},
                                      {"int", "3", DType::int32, 4},
                                      {"short int", "2", DType::int16, 2},
                                      {"short", "2", DType::int16, 2},
                                      {"signed char", "1", DType::int8, 1},
                                      {"unsigned char", "0", DType::uint8, 1},
                                      {"bool", "11", DType::boolean, 1},
                                      {"c10::Float8_e4m3fn", "24", DType::float8, 1},
                                      {"c10::Float8_e5m2", "23", DType::float8, 1},
                                      {"c10::complex<float>", "9", DType::complex64, 8},
                                      {"c10::complex<double>", "10", DType::complex128, 16}}};

Type typeOf(std::string_view Type::*field, std::string_view text)
{
    const auto found = std::ranges::find(types, text, field);
    return found == types.end() ? Type() : *found;
}

std::string OpArguments::value(std::size_t position) const
{
    return values.is_array() && position < values.size() && values[position].is_string()
        ? values[position].get<std::string>()
        : std::string();
}

std::optional<Sizes> OpArguments::numbers(std::size_t position) const
{
    const Document list = Document::parse(value(position), nullptr, false);
    return list.is_array() ? sizesIn(list) : std::nullopt;
}

/// Sets the type of a shape from the number of a c10::ScalarType. Returns false if it is none.
bool setType(TensorShape& shape, std::string_view number)
{
    const Type type = typeOf(&Type::number, number);
    shape.dtype = type.dtype;
    shape.itemSize = type.itemSize;
    return type.itemSize > 0;
}

std::optional<Sizes> sizesIn(const Document& list)
{
    Sizes sizes;
    for (const Document& size : list) {
        if (!size.is_number_integer() || size.get<std::int64_t>() < 0
            || size.get<std::int64_t>() > static_cast<std::int64_t>(mostElements))
            return std::nullopt;
        sizes.push_back(size.get<std::int64_t>());
    }
    return sizes;
}

/// Returns the number of elements, with empty dimensions counted as 1: an upper limit for every partial product.
double elements(const Sizes& sizes)
{
    double product = 1;
    for (const std::int64_t size : sizes)
        product *= static_cast<double>(std::max<std::int64_t>(size, 1));
    return product;
}

/// Reads "True", "3" or "[1, 1]" as whole numbers. Other values do not affect the time of an op.
OpSignature::Value numbersIn(const std::string& text)
{
    OpSignature::Value value;
    if (text == "True" || text == "False") {
        value = {OpSignature::Value::ValueType::integers, {}, {text == "True"}};
    } else if (const Document read = Document::parse(text, nullptr, false); read.is_number()) {
        const std::int64_t number = read.is_number_integer() ? read.get<std::int64_t>() : read.get<double>() != 0;
        value = {OpSignature::Value::ValueType::integers, {}, {number}};
    } else if (auto list = read.is_array() && !read.empty() ? sizesIn(read) : std::nullopt) {
        value = {OpSignature::Value::ValueType::integers, {}, *std::move(list)};
    }
    return value;
}

/// Returns the first element type among a kernel's template arguments: CatArrayBatchedCopy<float, unsigned int, …>. For
/// a kernel that only moves bytes (OpaqueType<2u>), a type of that size.
Type typeIn(std::string_view kernel)
{
    using Word = std::pair<std::string_view, std::string_view>; // text in the name, and the type with this text
    static constexpr std::array<Word, 10> words{{{"c10::BFloat16", "c10::BFloat16"},
                                                 {"__nv_bfloat16", "c10::BFloat16"},
                                                 {"c10::Half", "c10::Half"},
                                                 {"__half", "c10::Half"},
                                                 {"float", "float"},
                                                 {"double", "double"},
                                                 {"OpaqueType<1u>", "bool"},
                                                 {"OpaqueType<2u>", "c10::Half"},
                                                 {"OpaqueType<4u>", "float"},
                                                 {"OpaqueType<8u>", "double"}}};
    const auto first = std::ranges::min_element(words, {}, [&](const Word& word) { return kernel.find(word.first); });
    return kernel.find(first->first) == std::string_view::npos ? Type() : typeOf(&Type::name, first->second);
}

/// Adds a list of tensors from their sizes, such as [[2, 3], [4, 3]]. Returns false for unreadable text.
bool addList(const Document& sizes, const Type& type, OpArguments& arguments)
{
    OpSignature::Value list{OpSignature::Value::ValueType::tensors, {}, {}};
    for (const Document& one : sizes) {
        auto read = one.is_array() ? sizesIn(one) : std::nullopt;
        if (!read || type.itemSize == 0)
            return false;
        list.tensors.push_back({*std::move(read), {}, type.dtype, type.itemSize});
    }
    arguments.tensors.insert(arguments.tensors.end(), list.tensors.begin(), list.tensors.end());
    arguments.call.push_back(std::move(list));
    return !sizes.empty();
}

/// Returns the arguments of an op; nullopt if shapes are missing in the trace. Traces give no element type
/// for lists of tensors: the name of `kernel` has the type.
std::optional<OpArguments> opArguments(const Profile& profile, const Profile::Span& span, std::string_view kernel)
{
    const Profile::Arguments& given = profile.arguments[span.arguments];
    const auto list = [&](Profile::Text text) { return Document::parse(profile.texts[text], nullptr, false); };
    const Document sizes = list(given.sizes);
    const Document strides = list(given.strides);
    const Document names = list(given.types);
    if (!sizes.is_array() || !names.is_array() || sizes.size() != names.size())
        return std::nullopt;
    OpArguments arguments;
    arguments.values = list(given.values);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const std::string name = names[i].is_string() ? names[i].get<std::string>() : std::string();
        if (name == "TensorList") {
            if (!sizes[i].is_array() || !addList(sizes[i], typeIn(kernel), arguments))
                return std::nullopt;
            continue;
        }
        const Type type = typeOf(&Type::name, name);
        // A number in the program appears as a tensor of doubles without dimensions.
        if (type.itemSize == 0 || !sizes[i].is_array() || (sizes[i].empty() && name == "double" && i > 0)) {
            arguments.call.push_back(numbersIn(arguments.value(i)));
            continue;
        }
        auto read = sizesIn(sizes[i]);
        if (!read)
            return std::nullopt;
        TensorShape shape{*std::move(read), {}, type.dtype, type.itemSize};
        if (strides.is_array() && i < strides.size() && strides[i].is_array())
            shape.strides = sizesIn(strides[i]).value_or(Sizes());
        arguments.call.push_back({OpSignature::Value::ValueType::tensor, {shape}, {}});
        arguments.tensors.push_back(std::move(shape));
    }
    return arguments.tensors.empty() ? std::nullopt : std::optional(std::move(arguments));
}

using nlohmann::json;
using Arguments = OpArguments;

/// The rule by which the results of an op follow from the arguments.
enum class Rule {
    broadcast, ///< a result of the arguments' common shape
    compare, ///< like broadcast, but of booleans
    first, ///< like the first tensor
    second, ///< like the second tensor
    cast, ///< like the first tensor, of the type that the arguments name
    matrixProduct,
    addedProduct, ///< the product of the second and the third tensor
    convolution,
    convolutionBackward,
    norm, ///< like the first tensor, with statistics
    normBackward, ///< like the second tensor, and the gradients of weight and bias
    dropout, ///< like the first tensor, with a mask
    embedding,
    sum,
    attention,
    attentionBackward,
    concatenated, ///< the tensors of a list, joined
    list, ///< like the tensors of the first list
};

struct Family
{
    Rule rule;
    std::string_view names; ///< op names without "aten." and without the final "_" of an op in place
};

const std::map<std::string_view, Rule>& rules()
{
    using enum Rule;
    static constexpr std::array<Family, 19> families{{
        {broadcast,
         "add sub rsub mul div pow neg exp log sqrt rsqrt sin cos tanh sigmoid gelu silu relu leaky_relu elu "
         "hardtanh hardswish softplus erf abs reciprocal clamp clamp_min clamp_max maximum minimum addcmul "
         "addcdiv lerp sign cumsum triu tril bitwise_not mse_loss _softmax _log_softmax"},
        {broadcast,
         "threshold_backward tanh_backward sigmoid_backward gelu_backward silu_backward mse_loss_backward "
         "native_dropout_backward _softmax_backward_data _log_softmax_backward_data"},
        {compare, "eq ne lt le gt ge logical_not logical_and logical_or isnan"},
        {first, "copy zero fill clone masked_fill cudnn_batch_norm_backward miopen_batch_norm_backward"},
        {second, "max_pool2d_with_indices_backward"},
        {cast, "_to_copy"},
        {matrixProduct, "mm bmm"},
        {addedProduct, "addmm baddbmm"},
        {Rule::convolution, "convolution"},
        {Rule::convolutionBackward, "convolution_backward"},
        {norm,
         "native_layer_norm native_batch_norm cudnn_batch_norm miopen_batch_norm native_group_norm "
         "_fused_rms_norm"},
        {normBackward, "native_layer_norm_backward native_batch_norm_backward"},
        {dropout, "native_dropout"},
        {embedding, "embedding"},
        {sum, "sum mean amax amin"},
        {attention,
         "_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention "
         "_scaled_dot_product_cudnn_attention"},
        {attentionBackward,
         "_scaled_dot_product_flash_attention_backward "
         "_scaled_dot_product_efficient_attention_backward "
         "_scaled_dot_product_cudnn_attention_backward"},
        {concatenated, "cat"},
        {list,
         "_foreach_add _foreach_sub _foreach_mul _foreach_div _foreach_addcmul _foreach_addcdiv _foreach_sqrt "
         "_foreach_lerp _foreach_neg _foreach_reciprocal _foreach_maximum _foreach_zero _foreach_copy _fused_adam "
         "_fused_adamw _fused_sgd"},
    }};
    static const std::map<std::string_view, Rule> table = [] {
        std::map<std::string_view, Rule> made;
        for (auto [rule, names] : families) {
            while (!names.empty()) {
                const std::string_view name = names.substr(0, names.find(' '));
                names.remove_prefix(std::min(names.size(), name.size() + 1));
                made.emplace(name, rule);
            }
        }
        return made;
    }();
    return table;
}

TensorShape shaped(Sizes sizes, const TensorShape& like)
{
    return {std::move(sizes), {}, like.dtype, like.itemSize};
}

std::optional<TensorShape> broadcastShape(const std::vector<TensorShape>& tensors)
{
    TensorShape result = tensors.front();
    for (const TensorShape& tensor : tensors) {
        if (tensor.sizes.size() > result.sizes.size())
            result.sizes.insert(result.sizes.begin(), tensor.sizes.size() - result.sizes.size(), 1);
        // A tensor without dimensions does not decide the type if another tensor has dimensions.
        if (result.sizes.size() == tensor.sizes.size() && tensors.front().sizes.empty())
            result.dtype = tensor.dtype, result.itemSize = tensor.itemSize;
        for (std::size_t i = 1; i <= tensor.sizes.size(); ++i) {
            std::int64_t& size = result.sizes[result.sizes.size() - i];
            const std::int64_t other = tensor.sizes[tensor.sizes.size() - i];
            if (size != other && size != 1 && other != 1)
                return std::nullopt;
            size = size == 1 ? other : size;
        }
    }
    result.strides.clear();
    return result;
}

std::optional<TensorShape> product(const TensorShape& a, const TensorShape& b)
{
    if (a.sizes.size() < 2 || a.sizes.size() != b.sizes.size())
        return std::nullopt;
    Sizes sizes = a.sizes;
    sizes.back() = b.sizes.back();
    return shaped(std::move(sizes), a);
}

/// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
std::optional<TensorShape> convolved(const Arguments& arguments, OpShapes& op)
{
    const auto stride = arguments.numbers(3);
    const auto padding = arguments.numbers(4);
    const auto dilation = arguments.numbers(5);
    const auto outputPadding = arguments.numbers(7);
    const std::string groups = arguments.value(8);
    if (op.inputs.size() < 2 || !stride || !padding || !dilation || !outputPadding)
        return std::nullopt;
    const Sizes& x = op.inputs[0].sizes;
    const Sizes& weight = op.inputs[1].sizes;
    op.convolution.transposed = arguments.value(6) == "True";
    const std::size_t places = x.size() < 2 ? 0 : x.size() - 2;
    const auto fits = [&](const Sizes& one) { return one.size() == places; };
    const auto isSmall = [](const Sizes& one) {
        return std::ranges::all_of(one, [](std::int64_t number) { return number < (1 << 28); });
    };
    if (places == 0 || weight.size() != x.size() || !isSmall(x) || !isSmall(weight) || !isSmall(*stride)
        || !isSmall(*padding) || !isSmall(*dilation) || !isSmall(*outputPadding) || !fits(*stride) || !fits(*padding)
        || !fits(*dilation) || !fits(*outputPadding) || std::ranges::count(*stride, 0) > 0)
        return std::nullopt;
    Sizes sizes{x[0], weight[0]};
    if (op.convolution.transposed) {
        const auto count = sizesIn(json::parse("[" + groups + "]", nullptr, false)).value_or(Sizes());
        if (count.size() != 1 || !isSmall(count))
            return std::nullopt;
        sizes[1] = weight[1] * count[0];
    }
    for (std::size_t i = 0; i < places; ++i) {
        const std::int64_t reach = (*dilation)[i] * (weight[i + 2] - 1);
        sizes.push_back(op.convolution.transposed
                            ? (x[i + 2] - 1) * (*stride)[i] - 2 * (*padding)[i] + reach + (*outputPadding)[i] + 1
                            : (x[i + 2] + 2 * (*padding)[i] - reach - 1) / (*stride)[i] + 1);
        if (sizes.back() < 0)
            return std::nullopt;
    }
    return shaped(std::move(sizes), op.inputs[0]);
}

/// convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
/// groups, output_mask)
bool convolutionGradients(const Arguments& arguments, OpShapes& op)
{
    const std::string mask = arguments.value(10);
    if (op.inputs.size() < 3 || mask.empty())
        return false;
    op.convolution.transposed = arguments.value(7) == "True";
    op.convolution.gradInput = mask.starts_with("[True");
    op.convolution.gradWeight
        = mask.find(", True") != std::string::npos && mask.find("False, False") == std::string::npos;
    if (op.convolution.gradInput)
        op.outputs.push_back(op.inputs[1]);
    if (op.convolution.gradWeight)
        op.outputs.push_back(op.inputs[2]);
    return !op.outputs.empty();
}

/// sum(self, dim, keepdim, …): over all dimensions without a list.
std::optional<TensorShape> reduced(const Arguments& arguments, const TensorShape& x)
{
    if (!arguments.values.is_array())
        return std::nullopt;
    const json over = json::parse(arguments.value(1), nullptr, false);
    Sizes sizes = x.sizes;
    const auto dimensions = static_cast<std::int64_t>(sizes.size());
    if (!over.is_array() || over.empty())
        return shaped({}, x);
    for (const json& one : over) {
        const std::int64_t named = one.is_number_integer() ? one.get<std::int64_t>() : dimensions;
        const std::int64_t dimension = named < 0 ? named + dimensions : named;
        if (dimension < 0 || dimension >= dimensions)
            return std::nullopt;
        sizes[static_cast<std::size_t>(dimension)] = 1;
    }
    return shaped(std::move(sizes), x);
}

std::optional<TensorShape> concatenation(const Arguments& arguments, const std::vector<TensorShape>& tensors)
{
    const auto rank = static_cast<std::int64_t>(tensors.front().sizes.size());
    const std::vector<std::int64_t> given
        = arguments.call.size() > 1 ? arguments.call[1].integers : std::vector<std::int64_t>();
    const std::int64_t dimension = given.empty() ? 0 : given.front() < 0 ? given.front() + rank : given.front();
    if (dimension < 0 || dimension >= rank)
        return std::nullopt;
    Sizes sizes = tensors.front().sizes;
    for (auto tensor = tensors.begin() + 1; tensor != tensors.end(); ++tensor) {
        if (tensor->sizes.size() != sizes.size())
            return std::nullopt;
        sizes[static_cast<std::size_t>(dimension)] += tensor->sizes[static_cast<std::size_t>(dimension)];
    }
    return shaped(std::move(sizes), tensors.front());
}

bool addAttention(OpShapes& op)
{
    const auto hasFour = [](const TensorShape& tensor) { return tensor.sizes.size() == 4; };
    if (op.inputs.size() < 3 || !std::all_of(op.inputs.begin(), op.inputs.begin() + 3, hasFour))
        return false;
    TensorShape result = shaped(op.inputs[0].sizes, op.inputs[0]);
    result.sizes[3] = op.inputs[2].sizes[3];
    TensorShape sums = shaped({result.sizes[0], result.sizes[1], result.sizes[2]}, result);
    sums.dtype = DType::float32;
    sums.itemSize = 4;
    op.outputs = {std::move(result), std::move(sums)};
    return true;
}

/// Adds the results to `op`. Returns false if the arguments do not determine the results.
bool addResults(Rule rule, const Arguments& arguments, OpShapes& op)
{
    const auto add = [&](std::optional<TensorShape> shape) {
        if (shape)
            op.outputs.push_back(*std::move(shape));
        return shape.has_value();
    };
    const std::vector<TensorShape>& in = op.inputs;
    switch (rule) {
    case Rule::broadcast:
        return add(broadcastShape(in));
    case Rule::compare:
        if (!add(broadcastShape(in)))
            return false;
        op.outputs[0].dtype = DType::boolean;
        op.outputs[0].itemSize = 1;
        return true;
    case Rule::first:
        return add(in[0]);
    case Rule::second:
        return in.size() > 1 && add(in[1]);
    case Rule::cast:
        return add(in[0]) && setType(op.outputs[0], arguments.value(1));
    case Rule::matrixProduct:
        return in.size() == 2 && add(product(in[0], in[1]));
    case Rule::addedProduct:
        return in.size() == 3 && add(product(in[1], in[2]));
    case Rule::convolution:
        return add(convolved(arguments, op));
    case Rule::convolutionBackward:
        return convolutionGradients(arguments, op);
    case Rule::norm: {
        // Mean and deviation have a number for each row that is normalized, or for each channel.
        const double shared = in.size() > 1 && elements(in[1].sizes) > 0 ? elements(in[1].sizes) : 1;
        const bool byRow = op.name.find("layer") != std::string::npos || op.name.find("rms") != std::string::npos;
        const auto count = static_cast<std::int64_t>(byRow ? elements(in[0].sizes) / shared : shared);
        return add(in[0]) && add(shaped({count}, in[0])) && add(shaped({count}, in[0]));
    }
    case Rule::normBackward:
        if (in.size() < 2 || !add(in[1]))
            return false;
        for (std::size_t i = 2; i < in.size(); ++i)
            if (in[i].sizes.size() == 1) // weight, and bias or statistics of channels
                op.outputs.push_back(in[i]);
        return true;
    case Rule::dropout: {
        TensorShape mask = in[0];
        mask.dtype = DType::boolean;
        mask.itemSize = 1;
        return add(in[0]) && add(std::move(mask));
    }
    case Rule::embedding: {
        if (in.size() != 2 || in[0].sizes.size() != 2)
            return false;
        Sizes sizes = in[1].sizes;
        sizes.push_back(in[0].sizes[1]);
        return add(shaped(std::move(sizes), in[0]));
    }
    case Rule::sum:
        return add(reduced(arguments, in[0]));
    case Rule::concatenated:
        return add(concatenation(arguments, in));
    case Rule::list:
        op.outputs = arguments.call.front().tensors;
        return arguments.call.front().kind == OpSignature::Value::ValueType::tensors;
    case Rule::attention:
        return addAttention(op);
    case Rule::attentionBackward:
        return in.size() > 3 && add(in[1]) && add(in[2]) && add(in[3]);
    }
    return false;
}

} // namespace

std::string stepOpName(std::string_view traceName)
{
    std::string name(traceName);
    if (const std::size_t colons = name.find("::"); colons != std::string::npos)
        name.replace(colons, 2, ".");
    return name;
}

std::optional<OpShapes> opShapes(const Profile& profile, const Profile::Span& span, std::string_view kernel)
{
    constexpr std::string_view aten = "aten.";
    OpShapes op;
    op.name = stepOpName(profile.texts[span.name]);
    if (!op.name.starts_with(aten) || span.arguments == 0)
        return std::nullopt;
    std::string_view base = std::string_view(op.name).substr(aten.size());
    const bool inPlace = base.ends_with('_');
    if (inPlace)
        base.remove_suffix(1);
    const auto rule = rules().find(base);
    if (rule == rules().end())
        return std::nullopt;
    const auto arguments = opArguments(profile, span, kernel);
    if (!arguments)
        return std::nullopt;
    op.inputs = arguments->tensors;
    if (!addResults(inPlace && rule->second != Rule::list ? Rule::first : rule->second, *arguments, op))
        return std::nullopt;
    const auto isPossible = [](const TensorShape& tensor) { return elements(tensor.sizes) < mostElements; };
    if (!std::ranges::all_of(op.inputs, isPossible) || !std::ranges::all_of(op.outputs, isPossible))
        return std::nullopt;
    op.dtype = op.outputs.front().dtype;
    // A trace does not contain the TF32 settings: these are the defaults.
    op.call = {convolutionTF32, arguments->call, {}};
    for (const TensorShape& output : op.outputs)
        op.call.results.push_back({OpSignature::Value::ValueType::tensor, {output}, {}});
    return op;
}

} // namespace headroom
