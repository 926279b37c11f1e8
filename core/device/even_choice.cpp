// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/even_choice.h"

#include "core/device/meta_call.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/arange.h>
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

/// Returns the dimension along which the op chooses; nullopt: it chooses among all elements.
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

} // namespace headroom::sim
