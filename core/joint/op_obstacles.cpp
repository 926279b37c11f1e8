// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/op_obstacles.h"

#include "core/trace/graph_ops.h"

#include <algorithm>
#include <array>

namespace headroom {

namespace {

// clang-format off
/// Ops with Tag.pointwise, and the ops that get_default_op_list() names. In-place variants have no entry.
constexpr auto recomputable = std::to_array<std::string_view>({
    "__and__", "__ilshift__", "__ixor__", "__lshift__", "__or__", "__rshift__", "__xor__", "_grad_sum_to_size",
    "_to_copy", "_unsafe_view", "abs", "acos", "acosh", "add", "addcdiv", "addcmul", "alias", "amax", "angle", "any",
    "arange", "argmax", "as_strided", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_left_shift",
    "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "broadcast_tensors", "ceil", "celu", "clamp",
    "clamp_max", "clamp_min", "clip", "clone", "conj_physical", "copysign", "cos", "cosh", "deg2rad", "digamma",
    "div", "elu", "empty", "empty_like", "eq", "equal", "erf", "erfc", "erfinv", "exp", "exp2", "expand", "expm1",
    "float_power", "floor", "fmax", "fmin", "fmod", "frac", "frexp", "full", "full_like", "gather", "gcd", "ge",
    "gelu", "gelu_backward", "gt", "hardshrink", "hardsigmoid", "hardtanh", "heaviside", "hypot", "i0", "igamma",
    "igammac", "index", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "lcm", "ldexp", "le", "lerp", "lgamma",
    "lift_fresh_copy", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2", "logical_and", "logical_not",
    "logical_or", "logical_xor", "logit", "logit_backward", "lt", "masked_fill", "max", "maximum", "mean", "min",
    "minimum", "mish", "mul", "mvlgamma", "nan_to_num", "native_dropout_backward", "ne", "neg", "new_zeros",
    "nextafter", "ones", "permute", "polygamma", "positive", "pow", "rad2deg", "reciprocal", "relu", "relu6",
    "remainder", "reshape", "round", "rrelu", "rsqrt", "rsub", "scalar_tensor", "select", "selu", "sgn", "sigmoid",
    "sigmoid_backward", "sign", "signbit", "silu", "silu_backward", "sin", "sinc", "sinh", "slice", "softplus",
    "softshrink", "special_airy_ai", "special_bessel_j0", "special_bessel_j1", "special_bessel_y0",
    "special_bessel_y1", "special_chebyshev_polynomial_t", "special_chebyshev_polynomial_u",
    "special_chebyshev_polynomial_v", "special_chebyshev_polynomial_w", "special_entr", "special_erfcx",
    "special_hermite_polynomial_h", "special_hermite_polynomial_he", "special_i0e", "special_i1", "special_i1e",
    "special_laguerre_polynomial_l", "special_legendre_polynomial_p", "special_log_ndtr",
    "special_modified_bessel_i0", "special_modified_bessel_i1", "special_modified_bessel_k0",
    "special_modified_bessel_k1", "special_ndtri", "special_scaled_modified_bessel_k0",
    "special_scaled_modified_bessel_k1", "special_shifted_chebyshev_polynomial_t",
    "special_shifted_chebyshev_polynomial_u", "special_shifted_chebyshev_polynomial_v",
    "special_shifted_chebyshev_polynomial_w", "special_spherical_bessel_j0", "special_xlog1py", "special_zeta",
    "split", "sqrt", "square", "squeeze", "std", "sub", "sum", "sum_to_size", "t", "tan", "tanh", "tanh_backward",
    "threshold", "threshold_backward", "to", "triu", "true_divide", "trunc", "type_as", "unsqueeze", "var",
    "var_mean", "view", "where", "xlogy", "zeros", "zeros_like"
});

constexpr auto computeIntensive = std::to_array<std::string_view>({
    "_efficient_attention_forward", "_flash_attention_forward", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention", "_scaled_mm", "addmm", "bmm", "convolution", "convolution_backward", "mm",
    "upsample_bilinear2d"
});

constexpr auto drawsRandom = std::to_array<std::string_view>({
    "native_dropout", "rand_like", "randn_like"
});
// clang-format on

template <class Names>
bool contains(const Names& names, std::string_view name)
{
    return std::ranges::binary_search(names, name);
}

/// "mm" of "aten.mm.default", "add" of "aten.add_.Tensor"; empty for ops that are not PyTorch's own.
std::string_view packetOf(std::string_view name)
{
    constexpr std::string_view prefix = "aten.";
    if (!name.starts_with(prefix))
        return {};
    name.remove_prefix(prefix.size());
    name = name.substr(0, name.find('.'));
    if (name.ends_with('_') && !name.ends_with("__"))
        name.remove_suffix(1);
    return name;
}

} // namespace

OpKind opKind(std::string_view name)
{
    static_assert(std::ranges::is_sorted(recomputable) && std::ranges::is_sorted(computeIntensive)
                  && std::ranges::is_sorted(drawsRandom));
    const std::string_view packet = packetOf(name);
    OpKind kind;
    kind.recomputable = contains(recomputable, packet);
    kind.random = contains(drawsRandom, packet);
    kind.fusible = kind.recomputable || kind.random;
    kind.computeIntensive = contains(computeIntensive, packet);
    kind.concatenation = packet == "cat";
    kind.updatesStatistics = updatesRunningStatistics(name);
    return kind;
}

namespace {

constexpr std::string_view severalPasses = "several backward passes use tensors that the module saves, and a selective "
                                           "checkpoint keeps results only for the first pass";

} // namespace

std::vector<std::string_view> opsObstacles(const StepTrace& trace, const StepIndex& index)
{
    std::vector<std::string_view> reasons(trace.modules.size());
    for (std::size_t module = 0; module < reasons.size(); ++module) {
        reasons[module] = obstacleText(index.obstacles[module]);
        const bool again = std::ranges::any_of(
            index.callsOf[module], [&](CallId call) { return index.isInSeveralPasses(index.calls[call.value]); });
        if (reasons[module].empty() && again)
            reasons[module] = severalPasses;
    }
    return reasons;
}

OpObstacles::OpObstacles(const StepTrace& trace, const StepIndex& index)
    : trace_(trace)
    , index_(index)
    , reasons_(opsObstacles(trace, index))
    , hasChildren_(trace.modules.size(), false)
{
    for (const ModuleId parent : trace.modules.parent)
        if (parent.valid())
            hasChildren_[parent.value] = true;
}

bool OpObstacles::keep(OpId op) const
{
    if (!trace_.ops.call[op].valid())
        return index_.obstacleOfStep != CheckpointObstacle::none;
    bool inTheWay = false;
    for (CallId call = trace_.ops.call[op]; call.valid(); call = trace_.calls.parent[call]) {
        const bool reason = !reasons_[trace_.calls.module[call].value].empty();
        const StepIndex::Call& around = index_.calls[call.value];
        if (!reason && around.saves())
            return false;
        inTheWay = inTheWay || reason;
    }
    return inTheWay;
}

void OpObstacles::addModules(OpId op, std::vector<ModuleId>& modules) const
{
    for (CallId call = trace_.ops.call[op]; call.valid(); call = trace_.calls.parent[call]) {
        const ModuleId module = trace_.calls.module[call];
        if (!reasons_[module.value].empty() && (hasChildren_[module.value] || !trace_.calls.parent[call].valid()))
            modules.push_back(module);
    }
}

std::vector<KeptModule> OpObstacles::named(std::vector<ModuleId> modules) const
{
    std::ranges::sort(modules);
    modules.erase(std::ranges::unique(modules).begin(), modules.end());
    std::vector<KeptModule> named;
    for (const ModuleId module : modules)
        named.push_back({module, reasons_[module.value]});
    return named;
}

} // namespace headroom
