// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/op_facts.h"

#include "core/trace/graph_ops.h"
#include "core/trace/step_trace.h"

#include <ATen/autocast_mode.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

namespace headroom {
namespace {

/// _VIEW_OPS of torch/utils/_runtime_estimation.py, sorted; and `_reshape_alias`: reshape() calls `_reshape_alias`
/// without a Python mode, and `view` on the fake tensors of PyTorch's tools.
constexpr auto viewOps = std::to_array<std::string_view>(
    {"adjoint",      "as_strided",    "chunk",     "detach",     "diagonal",  "expand",
     "expand_as",    "hsplit",        "imag",      "lift_fresh", "mH",        "mT",
     "movedim",      "permute",       "real",      "select",     "split",     "split_with_sizes",
     "squeeze",      "swapaxes",      "swapdims",  "t",          "transpose", "unbind",
     "unflatten",    "unfold",        "unsqueeze", "view",       "view_as",   "vsplit",
     "_unsafe_view", "_reshape_alias"});

/// _CREATE_OPS of torch/utils/_runtime_estimation.py.
constexpr auto createOps = std::to_array<std::string_view>(
    {"arange", "ones_like", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "zeros_like"});

/// SAC_IGNORED_OPS of torch/utils/checkpoint.py.
constexpr auto sacIgnoredOps = std::to_array<std::string_view>(
    {"aten.detach.default", "aten.dim.default", "aten.is_contiguous.default", "aten.is_contiguous.memory_format",
     "aten.is_non_overlapping_and_dense.default", "aten.is_strides_like_format.default", "aten.numel.default",
     "aten.size.default", "aten.storage_offset.default", "aten.stride.default", "aten.sym_numel.default",
     "aten.sym_size.default", "aten.sym_storage_offset.default", "aten.sym_stride.default", "prim.device.default"});

template <std::size_t n>
bool contains(const std::array<std::string_view, n>& list, std::string_view text)
{
    return std::find(list.begin(), list.end(), text) != list.end();
}

/// "aten::add_" and "Tensor" → "aten.add_.Tensor".
std::string overloadName(const c10::OperatorName& op)
{
    const std::size_t colons = op.name.find("::");
    return op.name.substr(0, colons) + '.' + op.name.substr(colons + 2) + '.'
        + (op.overload_name.empty() ? "default" : op.overload_name);
}

OpFacts::OpClass opClassOf(std::string_view name)
{
    if (name == "aten._to_copy.default")
        return OpFacts::OpClass::cast;
    if (name == "aten.convolution.default" || name == "aten._convolution.default")
        return OpFacts::OpClass::convolution;
    if (name == "aten.convolution_backward.default")
        return OpFacts::OpClass::convolutionBackward;
    if (name == "headroom.opaque.default")
        return OpFacts::OpClass::opaque;
    return OpFacts::OpClass::ordinary;
}

OpFacts read(const c10::OperatorHandle& op)
{
    const c10::FunctionSchema& schema = op.schema();
    OpFacts facts;
    facts.name = overloadName(op.operator_name());
    facts.kind = opClassOf(facts.name);
    facts.arguments = schema.arguments().size();
    facts.returns = schema.returns().size();
    bool writes = false;
    const bool hasStatistics = updatesRunningStatistics(facts.name);
    for (const c10::Argument& argument : schema.arguments()) {
        facts.written.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
        // Most schemas of batch normalisation do not declare the running statistics as written.
        facts.statistics.push_back(hasStatistics && argument.name().starts_with("running_"));
        if (hasStatistics && argument.name() == "training")
            facts.training = facts.written.size() - 1;
        writes = writes || facts.written.back();
        if (argument.name() == "dropout_p" || argument.name() == "dropout")
            facts.dropout = facts.written.size() - 1;
    }
    const std::string_view qualified = op.operator_name().name;
    if (qualified.starts_with("c10d::") && qualified != "c10d::send" && !qualified.ends_with("barrier")
        && !qualified.ends_with("barrier_"))
        writes = facts.written.front() = true; // the schemas of collectives do not say what is written
    if (qualified.starts_with("aten::")) {
        const std::string_view packet = qualified.substr(std::string_view("aten::").size());
        facts.flags |= contains(viewOps, packet) ? opView : 0;
        facts.flags |= contains(createOps, packet) ? opCreate : 0;
    }
    facts.flags |= writes ? opInPlace : 0;
    facts.flags |= op.hasTag(at::Tag::nondeterministic_seeded) ? opRandom : 0;
    // PyTorch's modes do not see a kernel that is launched past the dispatcher.
    const bool unseen = facts.kind == OpFacts::OpClass::opaque || contains(sacIgnoredOps, facts.name);
    facts.flags |= unseen ? opSacIgnored : 0;
    return facts;
}

/// Whether this thread has entered torch.autocast. The key of autocast is excluded outside of torch.autocast, too.
bool isInsideAutocast()
{
    at::autocast::increment_nesting();
    return at::autocast::decrement_nesting() > 0;
}

} // namespace

OpFacts opFacts(const c10::OperatorHandle& op)
{
    // The table serves later recordings, too. Each thread has a table, so that no lock is needed.
    static thread_local std::unordered_map<c10::OperatorHandle, OpFacts> table;
    const auto found = table.find(op);
    return found != table.end() ? found->second : table.emplace(op, read(op)).first->second;
}

bool writes(const OpFacts& facts, const torch::jit::Stack& stack, std::size_t first, std::size_t argument)
{
    if (!facts.statistics[argument])
        return facts.written[argument];
    return !facts.training || stack[first + *facts.training].toBool();
}

bool isAutocastCast(OpFacts::OpClass kind, const torch::jit::Stack& stack, std::size_t arguments)
{
    if (kind != OpFacts::OpClass::cast || !stack[stack.size() - arguments].isTensor())
        return false;
    const at::Tensor& weight = stack[stack.size() - arguments].toTensor();
    if (!weight.defined() || weight.scalar_type() != at::kFloat || !weight.requires_grad() || !weight.is_leaf()
        || weight.is_view() || !at::autocast::is_autocast_cache_enabled() || !isInsideAutocast()
        || !at::autocast::is_autocast_available(weight.device().type()))
        return false;
    // Autocast excludes the autocast key while autocast runs an op. Casts that the program calls run with the key.
    return c10::impl::tls_is_dispatch_key_excluded(
        at::autocast::get_autocast_dispatch_key_from_device_type(weight.device().type()));
}

} // namespace headroom
