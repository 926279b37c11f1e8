// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/profile/op_arguments.h"

#include <algorithm>
#include <array>
#include <utility>

namespace headroom {

namespace {

using Document = nlohmann::json; // files that are compiled together with this one have another short name for it

struct Type
{
    std::string_view name; ///< as Kineto writes it
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

} // namespace

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

double elements(const Sizes& sizes)
{
    double product = 1;
    for (const std::int64_t size : sizes)
        product *= static_cast<double>(std::max<std::int64_t>(size, 1));
    return product;
}

namespace {

/// Reads "True", "3" or "[1, 1]" as whole numbers. Other values do not affect the time of an op.
OpSignature::Value numbersIn(const std::string& text)
{
    OpSignature::Value value;
    if (text == "True" || text == "False") {
        value = {OpSignature::Value::Kind::integers, {}, {text == "True"}};
    } else if (const Document read = Document::parse(text, nullptr, false); read.is_number()) {
        const std::int64_t number = read.is_number_integer() ? read.get<std::int64_t>() : read.get<double>() != 0;
        value = {OpSignature::Value::Kind::integers, {}, {number}};
    } else if (auto list = read.is_array() && !read.empty() ? sizesIn(read) : std::nullopt) {
        value = {OpSignature::Value::Kind::integers, {}, *std::move(list)};
    }
    return value;
}

/// Returns the first element type among a kernel's template arguments: CatArrayBatchedCopy<float, unsigned int, …>. For
/// a kernel that only moves bytes (OpaqueType<2u>) it is a type of that size.
Type typeIn(std::string_view kernel)
{
    using Word = std::pair<std::string_view, std::string_view>; // text in the name, and the type that it stands for
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

/// Adds a list of tensors from their sizes, such as [[2, 3], [4, 3]]. Returns false if it cannot be read.
bool addList(const Document& sizes, const Type& type, OpArguments& arguments)
{
    OpSignature::Value list{OpSignature::Value::Kind::tensors, {}, {}};
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

} // namespace

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
        arguments.call.push_back({OpSignature::Value::Kind::tensor, {shape}, {}});
        arguments.tensors.push_back(std::move(shape));
    }
    return arguments.tensors.empty() ? std::nullopt : std::optional(std::move(arguments));
}

} // namespace headroom
