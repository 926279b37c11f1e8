// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/partly_known.h"

#include "core/device/boxed_values.h"
#include "core/device/meta_call.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/core/enum_tag.h>
#include <ATen/ops/any.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom::sim {
namespace {

using Choosing = std::pair<std::string_view, int>; // op and index of the result

constexpr std::array<Choosing, 10> choosing{{{"aten::topk", 1},
                                             {"aten::sort", 1},
                                             {"aten::sort.stable", 1},
                                             {"aten::max.dim", 1},
                                             {"aten::min.dim", 1},
                                             {"aten::kthvalue", 1},
                                             {"aten::median.dim", 1},
                                             {"aten::argmax", 0},
                                             {"aten::argmin", 0},
                                             {"aten::multinomial", 0}}};

/// Returns the dimension of the op's choice; nullopt: the op chooses among all elements.
std::optional<std::int64_t> dimensionOf(const c10::FunctionSchema& schema, std::span<const c10::IValue> arguments,
                                        const at::Tensor& self)
{
    const std::optional<int> at = schema.argumentIndexWithName("dim");
    const c10::IValue dim = at ? arguments[static_cast<std::size_t>(*at)] : c10::IValue(std::int64_t{-1});
    if (dim.isNone() || self.dim() == 0)
        return std::nullopt;
    return at::maybe_wrap_dim(dim.toInt(), self.dim());
}

} // namespace

int chosenResult(const c10::OperatorHandle& op)
{
    const c10::OperatorName& name = op.operator_name();
    const std::string whole = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    const auto* found = std::find_if(choosing.begin(), choosing.end(),
                                     [&](const Choosing& candidate) { return candidate.first == whole; });
    return found != choosing.end() ? found->second : -1;
}

at::Tensor evenChoice(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments, const at::Tensor& chosen)
{
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
    const at::Tensor& self = arguments[0].toTensor();
    const std::optional<std::int64_t> dim = dimensionOf(op.schema(), arguments, self);
    const std::int64_t choices = std::max<std::int64_t>(dim ? self.size(*dim) : self.numel(), 1);
    const at::Tensor inTurn
        = at::arange(chosen.numel(), at::TensorOptions().dtype(chosen.dtype()).device(at::kCPU)).remainder_(choices);
    const bool severalOfARow = dim && chosen.dim() == self.dim() && chosen.size(*dim) > 0;
    if (!severalOfARow)
        return inTurn.view(chosen.sizes());
    std::vector<std::int64_t> rowsFirst = chosen.sizes().vec();
    const auto at = rowsFirst.begin() + static_cast<std::ptrdiff_t>(*dim);
    std::rotate(at, at + 1, rowsFirst.end());
    return inTurn.view(rowsFirst).movedim(-1, *dim);
}

namespace {

using at::Tensor;
using torch::jit::Stack;
using Rule = Partly::Rule;
using Decider = Partly::Decider;

constexpr std::array<std::pair<std::string_view, Decider>, 5> deciding{{{"aten::bitwise_and", Decider::zero},
                                                                        {"aten::bitwise_or", Decider::allBits},
                                                                        {"aten::logical_and", Decider::zero},
                                                                        {"aten::logical_or", Decider::nonzero},
                                                                        {"aten::mul", Decider::zero}}};

constexpr std::array<std::pair<std::string_view, Decider>, 11> reducing{{{"aten::all", Decider::zero},
                                                                         {"aten::any", Decider::nonzero},
                                                                         {"aten::amax", Decider::allBits},
                                                                         {"aten::amin", Decider::zero},
                                                                         {"aten::count_nonzero", Decider::none},
                                                                         {"aten::max", Decider::allBits},
                                                                         {"aten::mean", Decider::none},
                                                                         {"aten::min", Decider::zero},
                                                                         {"aten::nansum", Decider::none},
                                                                         {"aten::prod", Decider::none},
                                                                         {"aten::sum", Decider::none}}};

constexpr std::array<std::string_view, 25> moving{"aten::_index_put_impl_",
                                                  "aten::cat",
                                                  "aten::constant_pad_nd",
                                                  "aten::copy_",
                                                  "aten::flip",
                                                  "aten::gather",
                                                  "aten::index",
                                                  "aten::index_copy",
                                                  "aten::index_copy_",
                                                  "aten::index_fill",
                                                  "aten::index_fill_",
                                                  "aten::index_put",
                                                  "aten::index_put_",
                                                  "aten::index_select",
                                                  "aten::repeat",
                                                  "aten::roll",
                                                  "aten::scatter",
                                                  "aten::scatter_",
                                                  "aten::select_scatter",
                                                  "aten::slice_scatter",
                                                  "aten::stack",
                                                  "aten::take",
                                                  "aten::tril",
                                                  "aten::triu",
                                                  "aten::_unsafe_view"};

template <std::size_t count>
std::optional<Decider> deciderIn(const std::array<std::pair<std::string_view, Decider>, count>& table,
                                 std::string_view name)
{
    const auto* found = std::ranges::find(table, name, &std::pair<std::string_view, Decider>::first);
    return found != table.end() ? std::optional(found->second) : std::nullopt;
}

/// Returns the name of the op out of place: "aten::mul" for "aten::mul_".
std::string_view outOfPlace(std::string_view name)
{
    return name.ends_with('_') ? name.substr(0, name.size() - 1) : name;
}

bool isElementwise(const c10::OperatorHandle& op)
{
    if (op.hasTag(at::Tag::pointwise))
        return true;
    // Some ops in place lack the tag that the op itself has.
    const c10::OperatorName& name = op.operator_name();
    const auto itself
        = c10::Dispatcher::singleton().findSchema({std::string(outOfPlace(name.name)), name.overload_name});
    return itself && itself->hasTag(at::Tag::pointwise);
}

Rule ruleOf(const c10::OperatorHandle& op)
{
    const std::string& name = op.schema().name();
    if (name == "aten::where")
        return Rule::where;
    if (outOfPlace(name) == "aten::masked_fill")
        return Rule::fill;
    if (deciderIn(reducing, name))
        return Rule::reduction;
    if (std::ranges::find(moving, name) != moving.end())
        return op.schema().overload_name().find("reduce") == std::string::npos ? Rule::moves : Rule::no;
    return isElementwise(op) || name == "aten::isin" ? Rule::elementwise : Rule::no;
}

bool returnsOneTensor(const c10::FunctionSchema& schema)
{
    return schema.returns().size() == 1 && schema.returns()[0].type()->isSubtypeOf(*c10::TensorType::get());
}

const Tensor& tensorAt(const Stack& stack, std::size_t position)
{
    return stack[position].toTensor();
}

/// Returns which elements alone determine the result. Elements are compared as `type`, the type of the op's
/// computation: `true` among integers is 1.
Tensor decides(Decider decider, const Tensor& values, at::ScalarType type)
{
    if (decider == Decider::nonzero)
        return values.ne(0);
    if (decider == Decider::zero)
        return values.eq(0);
    return values.to(type).bitwise_not().eq(0);
}

/// Returns the decider for this type. Floating-point numbers have none: zero times infinity is not zero.
Decider deciderFor(const Partly& partly, std::string_view name, at::ScalarType type)
{
    const bool logical = name.starts_with("aten::logical") || name == "aten::any" || name == "aten::all";
    return logical || at::isIntegralType(type, /*includeBool=*/true) ? partly.decider : Decider::none;
}

Tensor elementwise(const c10::OperatorHandle& op, const Partly& partly, const Stack& arguments, const Stack& unknown,
                   std::uint64_t overwritten)
{
    Tensor result;
    for (std::size_t i = 0; i < unknown.size(); ++i) {
        if (overwritten >> i & 1 || partly.places >> i & 1)
            continue;
        forEachTensor(unknown[i],
                      [&](const Tensor& flags) { result = result.defined() ? result.logical_or(flags) : flags; });
    }
    if (partly.decider == Decider::none || !arguments[1].isTensor())
        return result;
    const at::ScalarType type = at::result_type(tensorAt(arguments, 0), tensorAt(arguments, 1));
    const Decider decider = deciderFor(partly, op.schema().name(), type);
    for (std::size_t i = 0; i < 2 && decider != Decider::none; ++i) {
        const Tensor decided = decides(decider, tensorAt(arguments, i), type);
        result = result.logical_and(decided.logical_and(tensorAt(unknown, i).logical_not()).logical_not());
    }
    return result;
}

Tensor chosenWhere(const Tensor& condition, const Tensor& unknownCondition, const Tensor& self,
                   const Tensor& unknownSelf, const Tensor& other, const Tensor& unknownOther)
{
    const Tensor differs = unknownSelf.logical_or(unknownOther).logical_or(self.ne(other));
    return at::where(unknownCondition, differs, at::where(condition, unknownSelf, unknownOther));
}

/// masked_fill(self, mask, value): where(mask, value, self).
Tensor filled(const Stack& arguments, const Stack& unknown)
{
    const bool byTensor = arguments[2].isTensor();
    const Tensor& self = tensorAt(arguments, 0);
    const Tensor value = byTensor ? tensorAt(arguments, 2) : at::scalar_tensor(arguments[2].toScalar());
    const Tensor unknownValue = byTensor ? tensorAt(unknown, 2) : at::scalar_tensor(false, at::kBool);
    return chosenWhere(tensorAt(arguments, 1), tensorAt(unknown, 1), value.to(self.scalar_type()), unknownValue, self,
                       tensorAt(unknown, 0));
}

/// Returns any() of the flags over the dimensions that the op reduces.
Tensor anyOver(const c10::OperatorHandle& op, const Stack& arguments, const Tensor& flags)
{
    const auto argument = [&](const char* name) {
        const std::optional<int> at = op.schema().argumentIndexWithName(name);
        return at ? arguments[static_cast<std::size_t>(*at)] : c10::IValue();
    };
    const c10::IValue dim = argument("dim");
    const c10::IValue keep = argument("keepdim");
    const bool keepDim = keep.isBool() && keep.toBool();
    if (dim.isInt())
        return at::any(flags, dim.toInt(), keepDim);
    const std::vector<std::int64_t> dims = dim.isIntList() ? dim.toIntVector() : std::vector<std::int64_t>();
    return dims.empty() ? at::any(flags, at::OptionalIntArrayRef(), keepDim) : at::any(flags, dims, keepDim);
}

Tensor reduced(const c10::OperatorHandle& op, const Partly& partly, const Stack& arguments, const Stack& unknown)
{
    const Tensor& values = tensorAt(arguments, 0);
    const Tensor& flags = tensorAt(unknown, 0);
    const std::string& name = op.schema().name();
    const Decider decider = deciderFor(partly, name, values.scalar_type());
    const Tensor result = anyOver(op, arguments, flags);
    // Among integers the largest or smallest value of the type would decide. Only bool is handled.
    const bool isExtreme = name.find("max") != std::string::npos || name.find("min") != std::string::npos;
    if (decider == Decider::none || (isExtreme && values.scalar_type() != at::kBool))
        return result;
    const Tensor decided = decides(decider, values, values.scalar_type()).logical_and(flags.logical_not());
    return result.logical_and(anyOver(op, arguments, decided).logical_not());
}

/// Runs the op on the flags: flags move as the elements do.
Tensor moved(const c10::OperatorHandle& op, const Partly& partly, const Stack& arguments, const Stack& unknown)
{
    Stack stack = arguments;
    for (std::size_t i = 0; i < stack.size(); ++i) {
        const c10::Argument& argument = op.schema().arguments()[i];
        if (argument.type()->kind() == c10::TypeKind::NumberType)
            stack[i] = at::Scalar(false); // a number of the program is known
        else if (!(partly.places >> i & 1))
            stack[i] = unknown[i];
        if (argument.alias_info() && argument.alias_info()->isWrite())
            stack[i] = stack[i].toTensor().clone();
    }
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
    return stack.back().toTensor();
}

} // namespace

Partly partlyOf(const c10::OperatorHandle& op)
{
    constexpr std::array<std::string_view, 3> places{"index", "indices", "test_elements"};
    const c10::FunctionSchema& schema = op.schema();
    Partly partly;
    if (!returnsOneTensor(schema))
        return partly;
    partly.rule = ruleOf(op);
    if (partly.rule == Rule::elementwise)
        partly.decider = deciderIn(deciding, outOfPlace(schema.name())).value_or(Decider::none);
    else if (partly.rule == Rule::reduction)
        partly.decider = deciderIn(reducing, schema.name()).value_or(Decider::none);
    for (std::size_t i = 0; i < std::min<std::size_t>(schema.arguments().size(), 64); ++i) {
        if (std::ranges::find(places, schema.arguments()[i].name()) != places.end())
            partly.places |= std::uint64_t{1} << i;
    }
    return partly;
}

Tensor unknownElements(const c10::OperatorHandle& op, const Partly& partly, const Stack& arguments,
                       const Stack& unknown, std::uint64_t overwritten)
{
    switch (partly.rule) {
    case Rule::elementwise:
        return elementwise(op, partly, arguments, unknown, overwritten);
    case Rule::where:
        return chosenWhere(tensorAt(arguments, 0), tensorAt(unknown, 0), tensorAt(arguments, 1), tensorAt(unknown, 1),
                           tensorAt(arguments, 2), tensorAt(unknown, 2));
    case Rule::fill:
        return filled(arguments, unknown);
    case Rule::reduction:
        return reduced(op, partly, arguments, unknown);
    case Rule::moves:
        return moved(op, partly, arguments, unknown);
    case Rule::no:
        break;
    }
    return {};
}

} // namespace headroom::sim
