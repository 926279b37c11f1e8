// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/op_traits.h"

#include "core/device/partly_known.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

namespace headroom::sim {
namespace {

using c10::DispatchKey;

template <std::size_t count>
bool isOneOf(std::string_view name, const std::array<std::string_view, count>& names)
{
    return std::ranges::find(names, name) != names.end();
}

bool returnsTensor(const c10::FunctionSchema& schema)
{
    return std::ranges::any_of(schema.returns(), [](const c10::Argument& result) {
        return result.type()->isSubtypeOf(*c10::TensorType::get()) || result.type()->kind() == c10::TypeKind::ListType
            || result.type()->kind() == c10::TypeKind::OptionalType;
    });
}

bool returnsViews(const c10::FunctionSchema& schema)
{
    const auto isView
        = [](const c10::Argument& result) { return result.alias_info() && !result.alias_info()->isWrite(); };
    return !schema.returns().empty() && std::ranges::all_of(schema.returns(), isView);
}

OpTraits::Fills fillsOf(std::string_view name)
{
    constexpr std::array<std::string_view, 12> inPlace{
        "aten::erfinv_", "aten::mul_",  "aten::div_",  "aten::add_",  "aten::sub_",     "aten::clamp_",
        "aten::zero_",   "aten::fill_", "aten::copy_", "aten::lerp_", "aten::addcmul_", "aten::addcdiv_"};
    constexpr std::array<std::string_view, 5> newResult{"aten::mul", "aten::div", "aten::add", "aten::sub",
                                                        "aten::sqrt"};
    if (name == "aten::normal_")
        return OpTraits::Fills::normal;
    if (name == "aten::uniform_")
        return OpTraits::Fills::uniform;
    return isOneOf(name, inPlace)  ? OpTraits::Fills::inPlace
        : isOneOf(name, newResult) ? OpTraits::Fills::newResult
                                   : OpTraits::Fills::no;
}

OpTraits::Asks asksOf(std::string_view name)
{
    if (name == "aten::eq")
        return OpTraits::Asks::whetherEqual;
    if (name == "aten::ne")
        return OpTraits::Asks::whetherDifferent;
    return name == "aten::isnan" ? OpTraits::Asks::whetherNan : OpTraits::Asks::nothing;
}

OpTraits::Filled filledOf(const c10::OperatorName& op)
{
    // Uninitialised memory counts as zeros: any contents are possible, and programs fill small tensors element by
    // element.
    constexpr std::array<std::string_view, 3> withZeros{"aten::zeros_like", "aten::empty_like", "aten::empty_strided"};
    const std::string_view name = op.name;
    const std::string_view overload = op.overload_name;
    if ((overload.empty() && isOneOf(name, withZeros)) || (name == "aten::empty" && overload == "memory_format"))
        return OpTraits::Filled::zeros;
    if (name == "aten::ones_like" && overload.empty())
        return OpTraits::Filled::ones;
    return name == "aten::full_like" && overload.empty() ? OpTraits::Filled::asSaid : OpTraits::Filled::no;
}

OpTraits read(const c10::OperatorHandle& op)
{
    constexpr std::array<std::string_view, 4> overwriting{"aten::copy_", "aten::fill_", "aten::zero_",
                                                          "aten::_copy_from"};
    constexpr std::array<std::string_view, 2> moving{"aten::set_", "aten::resize_"};
    // The other ops with results of data-dependent size have kernels on the device that look up the values.
    constexpr std::array<std::string_view, 5> sizedByValues{"aten::_unique2", "aten::unique_dim",
                                                            "aten::unique_consecutive", "aten::unique_dim_consecutive",
                                                            "torchvision::nms"};
    constexpr std::size_t maxArguments = 64;
    // Programs combine tests whether a large tensor is finite with these ops.
    constexpr std::array<std::string_view, 9> ofOneNumber{"aten::all",         "aten::any",         "aten::mul",
                                                          "aten::logical_not", "aten::logical_and", "aten::logical_or",
                                                          "aten::bitwise_not", "aten::bitwise_and", "aten::bitwise_or"};
    const c10::FunctionSchema& schema = op.schema();
    const std::string_view name = schema.name();

    OpTraits traits;
    const bool ours = op.hasKernelForDispatchKey(DispatchKey::PrivateUse1);
    traits.shapesOnly
        = !ours && op.hasKernelForDispatchKey(DispatchKey::CUDA) && op.hasKernelForDispatchKey(DispatchKey::Meta);
    traits.composite = !ours && !traits.shapesOnly
        && (op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd)
            || op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional)
            || op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd));
    traits.composite |= name.starts_with("c10d::"); // the group writes the results of a collective by copies
    traits.returnsNumbers = !schema.returns().empty() && !returnsTensor(schema);
    traits.filled = filledOf(op.operator_name());
    traits.chosen = chosenResult(op);
    traits.asksAll = name == "aten::all" && op.operator_name().overload_name.empty();
    traits.copies = name == "aten::copy_" || name == "aten::_copy_from";
    traits.isView = returnsViews(schema);
    traits.readsNothing = traits.isView || traits.filled != OpTraits::Filled::no || name == "aten::is_pinned";
    traits.fills
        = op.operator_name().overload_name.find("out") == std::string::npos ? fillsOf(name) : OpTraits::Fills::no;
    traits.asks = asksOf(name);
    traits.keepsValues = op.hasTag(at::Tag::inplace_view) || isOneOf(name, moving);
    traits.checksGradients = name == "aten::_amp_foreach_non_finite_check_and_unscale_";
    traits.wholeByCuda = name == "aten::histc";
    traits.computable = !op.hasTag(at::Tag::nondeterministic_seeded) && !traits.keepsValues
        && name.find("empty") == std::string_view::npos && op.hasComputedKernelForDispatchKey(DispatchKey::CPU);
    traits.devices = deviceCheckOf(op);
    traits.takesGenerator = std::ranges::any_of(schema.arguments(), [](const c10::Argument& argument) {
        return *argument.type() == *c10::getTypePtr<std::optional<at::Generator>>();
    });
    traits.types = typeCheckOf(op);
    const auto& arguments = schema.arguments();
    for (std::size_t i = 0; i < std::min(arguments.size(), maxArguments); ++i) {
        const bool destination = name == "aten::_copy_from" && i == 1; // the schema does not say so
        if (!destination && (!arguments[i].alias_info() || !arguments[i].alias_info()->isWrite()))
            continue;
        traits.written |= std::uint64_t{1} << i;
        if (arguments[i].is_out() || isOneOf(name, overwriting))
            traits.overwritten |= std::uint64_t{1} << i;
    }
    if (traits.computable)
        traits.partly = partlyOf(op);
    traits.ofOneNumber = traits.written == 0 && isOneOf(name, ofOneNumber);
    traits.sizedByValues = isOneOf(name, sizedByValues) && traits.written == 0;
    return traits;
}

} // namespace

const OpTraits& traitsOf(const c10::OperatorHandle& op)
{
    // A table for each thread, so that an op takes no lock.
    static thread_local std::unordered_map<c10::OperatorHandle, OpTraits> table;
    const auto found = table.find(op);
    return found != table.end() ? found->second : table.emplace(op, read(op)).first->second;
}

} // namespace headroom::sim
