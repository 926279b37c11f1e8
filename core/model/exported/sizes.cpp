// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/exported/sizes.h"

#include "core/base/try.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace headroom::exported {
namespace {

/// Limit of a batch or a sequence that the file does not bound. It is beyond any GPU, and bytes do not overflow.
constexpr std::int64_t mostChosen = std::int64_t{1} << 24;

/// Evaluates sympy's srepr as torch.export writes it: nested Symbol('s0', …), Integer(2), Add(…), Mul(…); or a name.
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
                          : badInput(given + ": " + program_.name + " has no " + name + " dimension; leave it out");
    const auto symbol = symbolOf(*size);
    if (!symbol) {
        const auto fixed = evaluate(*size, chosen_.symbols);
        value = fixed.value_or(0);
        if (asked == 0 || fixed == asked)
            return {};
        return badInput(given + ": " + program_.name + " was exported for a " + name + " of " + std::to_string(value)
                        + " only; export it again with dynamic_shapes to choose another");
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
            return badInput(given + ": batch and sequence are one dimension of " + program_.name
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

} // namespace headroom::exported
