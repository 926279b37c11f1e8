// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Python's arithmetic of sizes (_SYM_OPS of torch/_export/serde/serialize.py), and the ops that return a tensor's
// sizes.

#include "core/model/exported/exported_model.h"

#include "core/base/try.h"
#include "core/model/exported/graph_program.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

namespace headroom::exported {
namespace {

/// Limit of a batch or a sequence that the file does not bound. The limit is beyond any GPU, and bytes do not overflow.
constexpr std::int64_t mostChosen = std::int64_t{1} << 24;

/// Evaluates sympy's srepr, written by torch.export: nested Symbol('s0', …), Integer(2), Add(…), Mul(…); or a name.
class Expression
{
public:
    Expression(std::string_view text, const Symbols* symbols)
        : text_(text)
        , symbols_(symbols)
    {
    }
    std::optional<std::int64_t> value()
    {
        const auto result = term(0);
        return at_ == text_.size() ? result : std::nullopt;
    }

private:
    std::optional<std::int64_t> term(int depth);
    std::optional<std::int64_t> symbol();
    std::optional<std::int64_t> integer();
    std::optional<std::int64_t> fold(bool product, int depth);
    bool take(std::string_view word)
    {
        const bool found = text_.substr(at_).starts_with(word);
        at_ += found ? word.size() : 0;
        return found;
    }

    std::string_view text_;
    const Symbols* symbols_;
    std::size_t at_ = 0;
};

std::optional<std::int64_t> Expression::term(int depth)
{
    constexpr int deepest = 32;
    if (depth > deepest)
        return std::nullopt;
    if (take("Symbol('"))
        return symbol();
    if (take("Integer("))
        return integer();
    if (take("Mul("))
        return fold(true, depth);
    if (take("Add("))
        return fold(false, depth);
    const auto plain = symbols_->find(std::string(text_.substr(at_)));
    if (depth != 0 || plain == symbols_->end())
        return std::nullopt;
    at_ = text_.size();
    return plain->second;
}

std::optional<std::int64_t> Expression::symbol()
{
    const std::size_t quote = text_.find('\'', at_);
    const std::size_t end = text_.find(')', at_);
    if (quote == std::string_view::npos || end == std::string_view::npos || end < quote)
        return std::nullopt;
    const auto found = symbols_->find(std::string(text_.substr(at_, quote - at_)));
    at_ = end + 1;
    return found == symbols_->end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::int64_t> Expression::integer()
{
    std::int64_t number = 0;
    const auto [rest, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    at_ = static_cast<std::size_t>(rest - text_.data());
    return error == std::errc() && take(")") ? std::optional(number) : std::nullopt;
}

std::optional<std::int64_t> Expression::fold(bool product, int depth)
{
    std::int64_t result = product ? 1 : 0;
    do {
        const auto operand = term(depth + 1);
        const bool overflow = operand
            && (product ? __builtin_mul_overflow(result, *operand, &result)
                        : __builtin_add_overflow(result, *operand, &result));
        if (!operand || overflow)
            return std::nullopt;
    } while (take(", "));
    return take(")") ? std::optional(result) : std::nullopt;
}

/// The dimensions that --batch and --seq set.
struct Roles
{
    const Size* batch = nullptr;
    const Size* sequence = nullptr;
};

Roles findRoles(const ExportedProgram& program)
{
    Roles roles;
    bool tokens = false;
    for (const InputSpec& input : program.inputs) {
        const TensorMeta* meta = program.tensorOf(input);
        if (!meta || meta->sizes.empty())
            continue;
        if (!roles.batch || (!symbolOf(*roles.batch) && symbolOf(meta->sizes[0])))
            roles.batch = &meta->sizes[0];
        const std::size_t rank = meta->sizes.size();
        const bool areTokens = rank == 2 && at::isIntegralType(meta->dtype, false);
        if ((areTokens && !tokens) || (rank == 3 && !roles.sequence)) {
            roles.sequence = &meta->sizes[1];
            tokens = areTokens;
        }
    }
    return roles;
}

Range rangeOf(const ExportedProgram& program, const std::string& symbol)
{
    const auto found = program.ranges.find(symbol);
    Range range = found == program.ranges.end() ? Range() : found->second;
    // The largest integer, or sympy's infinity, is no bound.
    if (range.most && *range.most >= std::numeric_limits<std::int64_t>::max() / 2)
        range.most.reset();
    return range;
}

/// Returns the value of each symbol when the model was exported.
Symbols exportedSymbols(const ExportedProgram& program)
{
    Symbols symbols;
    const auto add = [&](const Size& size) {
        if (const auto symbol = symbolOf(size)) {
            const Range range = rangeOf(program, *symbol);
            symbols.emplace(*symbol, std::max<std::int64_t>(size.number, range.least.value_or(1)));
        }
    };
    for (const InputSpec& input : program.inputs)
        if (const TensorMeta* meta = program.tensorOf(input))
            std::ranges::for_each(meta->sizes, add);
    for (const auto& [name, size] : program.graph.numbers)
        add(size);
    return symbols;
}

class Chooser
{
public:
    Chooser(const ExportedProgram& program, ChosenSizes& chosen)
        : program_(program)
        , chosen_(chosen)
    {
    }
    /// Sets `value` to the size of a dimension, and the dimension's symbol to `asked` unless that is 0.
    Status choose(const Size* size, std::int64_t asked, const char* option, const char* name, std::int64_t& value);

private:
    const ExportedProgram& program_;
    ChosenSizes& chosen_;
    Symbols asked_;
};

Status Chooser::choose(const Size* size, std::int64_t asked, const char* option, const char* name, std::int64_t& value)
{
    const std::string given = std::string(option) + " " + std::to_string(asked);
    if (!size)
        return asked == 0 ? Status()
                          : badInput(given + ": " + program_.name + " has no " + name + " dimension; leave "
                                     + std::string(option) + " out");
    const auto symbol = symbolOf(*size);
    if (!symbol) {
        const auto fixed = evaluate(*size, chosen_.symbols);
        value = fixed.value_or(0);
        if (asked == 0 || fixed == asked)
            return {};
        return badInput(given + ": " + program_.name + " was exported for a " + name + " of " + std::to_string(value)
                        + " only; export the model again with dynamic_shapes to choose another size");
    }
    const Range range = rangeOf(program_, *symbol);
    const std::int64_t least = range.least.value_or(1);
    const std::int64_t most = std::min(range.most.value_or(mostChosen), mostChosen);
    if (asked != 0 && (asked < least || asked > most))
        return badInput(given + " is out of range: " + program_.name + " was exported for a " + name + " of "
                        + std::to_string(least) + " to " + std::to_string(most));
    if (asked != 0) {
        const auto [before, isNew] = asked_.emplace(*symbol, asked);
        if (!isNew && before->second != asked)
            return badInput(given + ": batch and sequence are the same dimension of " + program_.name
                            + "; give both the same size");
        chosen_.symbols[*symbol] = asked;
    }
    value = chosen_.symbols.at(*symbol);
    chosen_.dimensions.push_back({name, value, least, range.most ? most : 0});
    return {};
}

} // namespace

std::optional<std::string> symbolOf(const Size& size)
{
    constexpr std::string_view begin = "Symbol('";
    const std::string& text = size.expression;
    if (text.starts_with(begin)) {
        const std::size_t quote = text.find('\'', begin.size());
        if (quote != std::string::npos && text.find(')') == text.size() - 1)
            return text.substr(begin.size(), quote - begin.size());
        return std::nullopt;
    }
    const bool isName = !text.empty()
        && text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
            == std::string::npos;
    return isName ? std::optional(text) : std::nullopt;
}

std::optional<std::int64_t> evaluate(const Size& size, const Symbols& symbols)
{
    return size.expression.empty() ? size.number : Expression(size.expression, &symbols).value();
}

Result<ChosenSizes> chooseSizes(const ExportedProgram& program, const ModelRequest& request)
{
    ChosenSizes chosen;
    chosen.symbols = exportedSymbols(program);
    const Roles roles = findRoles(program);
    Chooser chooser(program, chosen);
    RETURN_IF_ERROR(chooser.choose(roles.batch, request.batch, "--batch", "batch", chosen.batch));
    RETURN_IF_ERROR(chooser.choose(roles.sequence, request.sequence, "--seq", "sequence", chosen.sequence));
    return chosen;
}

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

/// Makes a function of two whole numbers. The result for two booleans is a boolean, as in Python.
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
        TORCH_CHECK(v.size() == 1, "a single operand was expected");
        return work(v[0]);
    };
}

Function ofTensor(std::int64_t (*function)(const at::Tensor&, std::int64_t))
{
    return [=](const Values& v) -> IValue {
        TORCH_CHECK(!v.empty() && v[0].isTensor(), "a tensor was expected");
        return function(v[0].toTensor(), v.size() > 1 ? v[1].toInt() : 0);
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
