// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Python's arithmetic of sizes (_SYM_OPS of torch/_export/serde/serialize.py), and the ops that return a tensor's
// sizes.
#include "core/model/exported/graph_program.h"

#include <ATen/core/Tensor.h>

#include <cmath>
#include <map>

namespace headroom::exported {
namespace {

using c10::IValue;
using Values = std::vector<IValue>;
using Function = std::function<IValue(const Values&)>;

double real(const IValue& value)
{
    return value.isInt() ? static_cast<double>(value.toInt()) : value.isBool() ? value.toBool() : value.toDouble();
}

std::int64_t whole(const IValue& value)
{
    return value.isBool() ? value.toBool() : value.toInt();
}

bool areWhole(const Values& values)
{
    return std::ranges::all_of(values, [](const IValue& value) { return value.isInt() || value.isBool(); });
}

std::int64_t divisor(std::int64_t value)
{
    TORCH_CHECK(value != 0, "a size is divided by zero");
    return value;
}

/// Rounds down, as Python does.
std::int64_t floorDivide(std::int64_t a, std::int64_t b)
{
    const std::int64_t quotient = a / divisor(b);
    return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

/// Makes a function of two integers that throws if `overflows(a, b, &result)`.
template <class Overflows>
constexpr auto checked(Overflows overflows)
{
    return [=](std::int64_t a, std::int64_t b) {
        std::int64_t result = 0;
        TORCH_CHECK(!overflows(a, b, &result), "a size is 2^63 or more");
        return result;
    };
}

constexpr auto plus = checked([](auto a, auto b, auto* result) { return __builtin_add_overflow(a, b, result); });
constexpr auto minus = checked([](auto a, auto b, auto* result) { return __builtin_sub_overflow(a, b, result); });
constexpr auto times = checked([](auto a, auto b, auto* result) { return __builtin_mul_overflow(a, b, result); });

std::int64_t power(std::int64_t base, std::int64_t exponent)
{
    std::int64_t result = 1;
    for (; exponent > 0; --exponent)
        result = times(result, base);
    return result;
}

/// Makes a function of two numbers: forWhole(a, b) for whole numbers, otherwise forReal(a, b).
template <class Whole, class Real>
Function arithmetic(Whole forWhole, Real forReal)
{
    return [=](const Values& v) -> IValue {
        TORCH_CHECK(v.size() == 2, "two operands were expected");
        if (areWhole(v))
            return static_cast<std::int64_t>(forWhole(whole(v[0]), whole(v[1])));
        return forReal(real(v[0]), real(v[1]));
    };
}

template <class Compare>
Function comparison(Compare compare)
{
    return [=](const Values& v) -> IValue {
        TORCH_CHECK(v.size() == 2, "two operands were expected");
        return areWhole(v) ? compare(whole(v[0]), whole(v[1])) : compare(real(v[0]), real(v[1]));
    };
}

/// Makes a function of two whole numbers. Its result for two booleans is a boolean, as in Python.
template <class Combine>
Function bitwise(Combine combine)
{
    return [=](const Values& v) -> IValue {
        TORCH_CHECK(v.size() == 2 && areWhole(v), "two whole numbers were expected");
        const std::int64_t result = combine(whole(v[0]), whole(v[1]));
        return v[0].isBool() && v[1].isBool() ? IValue(result != 0) : IValue(result);
    };
}

template <class Work>
Function unary(Work work)
{
    return [=](const Values& v) -> IValue {
        TORCH_CHECK(v.size() == 1, "one operand was expected");
        return work(v[0]);
    };
}

Function ofTensor(std::int64_t (*question)(const at::Tensor&, std::int64_t))
{
    return [=](const Values& v) -> IValue {
        TORCH_CHECK(!v.empty() && v[0].isTensor(), "a tensor was expected");
        return question(v[0].toTensor(), v.size() > 1 ? v[1].toInt() : 0);
    };
}

std::map<std::string, Function> makeTable()
{
    std::map<std::string, Function> table;
    table["_operator.add"] = arithmetic(plus, std::plus<double>());
    table["_operator.sub"] = arithmetic(minus, std::minus<double>());
    table["_operator.mul"] = arithmetic(times, std::multiplies<double>());
    table["_operator.floordiv"] = arithmetic(floorDivide, [](double a, double b) { return std::floor(a / b); });
    table["_operator.mod"] = arithmetic([](std::int64_t a, std::int64_t b) { return a - floorDivide(a, b) * b; },
                                        [](double a, double b) { return a - std::floor(a / b) * b; });
    table["_operator.truediv"] = [](const Values& v) -> IValue {
        TORCH_CHECK(v.size() == 2, "two operands were expected");
        return real(v[0]) / real(v[1]);
    };
    table["_operator.pow"] = arithmetic(power, [](double a, double b) { return std::pow(a, b); });
    table["_operator.eq"] = comparison(std::equal_to<>());
    table["_operator.ne"] = comparison(std::not_equal_to<>());
    table["_operator.lt"] = comparison(std::less<>());
    table["_operator.le"] = comparison(std::less_equal<>());
    table["_operator.gt"] = comparison(std::greater<>());
    table["_operator.ge"] = comparison(std::greater_equal<>());
    table["_operator.and_"] = bitwise(std::bit_and<std::int64_t>());
    table["_operator.or_"] = bitwise(std::bit_or<std::int64_t>());
    table["_operator.neg"]
        = unary([](const IValue& v) -> IValue { return v.isInt() ? IValue(minus(0, v.toInt())) : -real(v); });
    table["_operator.pos"] = unary([](const IValue& v) { return v; });
    table["torch.sym_not"] = unary([](const IValue& v) -> IValue { return !v.toBool(); });
    table["torch.sym_float"] = unary([](const IValue& v) -> IValue { return real(v); });
    table["torch.sym_int"] = table["math.trunc"]
        = unary([](const IValue& v) -> IValue { return static_cast<std::int64_t>(std::trunc(real(v))); });
    table["math.floor"]
        = unary([](const IValue& v) -> IValue { return static_cast<std::int64_t>(std::floor(real(v))); });
    table["math.ceil"] = unary([](const IValue& v) -> IValue { return static_cast<std::int64_t>(std::ceil(real(v))); });
    table["math.sqrt"] = table["torch.sym_sqrt"] = unary([](const IValue& v) -> IValue { return std::sqrt(real(v)); });
    table["torch.sym_max"]
        = arithmetic([](auto a, auto b) { return std::max(a, b); }, [](auto a, auto b) { return std::max(a, b); });
    table["torch.sym_min"]
        = arithmetic([](auto a, auto b) { return std::min(a, b); }, [](auto a, auto b) { return std::min(a, b); });
    table["torch.sym_ite"] = [](const Values& v) -> IValue {
        TORCH_CHECK(v.size() == 3, "three operands were expected");
        return v[0].toBool() ? v[1] : v[2];
    };
    table["torch.ops.aten.sym_size.int"] = ofTensor([](const at::Tensor& t, std::int64_t dim) { return t.size(dim); });
    table["torch.ops.aten.sym_stride.int"]
        = ofTensor([](const at::Tensor& t, std::int64_t dim) { return t.stride(dim); });
    table["torch.ops.aten.sym_numel.default"] = ofTensor([](const at::Tensor& t, std::int64_t) { return t.numel(); });
    table["torch.ops.aten.sym_storage_offset.default"]
        = ofTensor([](const at::Tensor& t, std::int64_t) { return t.storage_offset(); });
    return table;
}

} // namespace

Function sizeFunction(const std::string& target)
{
    static const std::map<std::string, Function> table = makeTable();
    const auto found = table.find(target);
    return found == table.end() ? Function() : found->second;
}

} // namespace headroom::exported
