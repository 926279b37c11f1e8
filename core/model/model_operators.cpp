// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/model_operators.h"

#include <ATen/core/jit_type.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <set>
#include <stdexcept>

namespace headroom {
namespace {

using Names = std::set<std::string, std::less<>>;

/// Parameters that hold a text and have no effect outside of the tensors: modes, names of dimensions, messages.
const Names& harmlessTexts()
{
    static const Names names{"UPLO",
                             "a",
                             "activation",
                             "algorithm",
                             "api_name",
                             "approximate",
                             "assert_msg",
                             "b",
                             "dim",
                             "dim0",
                             "dim1",
                             "dim2",
                             "dims",
                             "driver",
                             "el",
                             "end_dim",
                             "equation",
                             "indexing",
                             "interpolation",
                             "mode",
                             "names",
                             "norm",
                             "ord",
                             "order",
                             "out_dim",
                             "outdim",
                             "p",
                             "pad_mode",
                             "padding",
                             "padding_side",
                             "reduce",
                             "rounding_mode",
                             "self",
                             "separator",
                             "side",
                             "start_dim",
                             "string",
                             "substr"};
    return names;
}

/// Operators of TorchScript that are none of the dispatcher: of numbers, texts, lists and dictionaries, and the
/// functions of torch.nn.functional that TorchScript has of its own.
const Names& scriptOperators()
{
    static const Names names{
        // Numbers.
        "aten::Bool", "aten::Complex", "aten::ComplexImplicit", "aten::Float", "aten::FloatImplicit", "aten::Int",
        "aten::IntImplicit", "aten::ScalarImplicit", "aten::__derive_index", "aten::__not__", "aten::__range_length",
        "aten::__round_to_zero_floordiv", "aten::degrees", "aten::divmod", "aten::fabs", "aten::factorial",
        "aten::floordiv", "aten::gamma", "aten::mathremainder", "aten::modf", "aten::radians", "prim::NumToTensor",
        "prim::abs", "prim::max", "prim::min", "prim::rangelist",
        // Texts.
        "aten::bin", "aten::capitalize", "aten::center", "aten::chr", "aten::count", "aten::endswith",
        "aten::expandtabs", "aten::find", "aten::format", "aten::hex", "aten::isalnum", "aten::isalpha",
        "aten::isdecimal", "aten::isdigit", "aten::isidentifier", "aten::islower", "aten::isnumeric",
        "aten::isprintable", "aten::isspace", "aten::istitle", "aten::isupper", "aten::join", "aten::ljust",
        "aten::lower", "aten::lstrip", "aten::oct", "aten::ord", "aten::partition", "aten::percentFormat",
        "aten::replace", "aten::rfind", "aten::rindex", "aten::rjust", "aten::rpartition", "aten::rsplit",
        "aten::rstrip", "aten::splitlines", "aten::startswith", "aten::str", "aten::strip", "aten::swapcase",
        "aten::title", "aten::upper", "aten::zfill", "prim::StringIndex",
        // Lists, dictionaries, tuples, enumerations, optional values.
        "aten::Delete", "aten::__contains__", "aten::__getitem__", "aten::__is__", "aten::__isnot__", "aten::_set_item",
        "aten::_unwrap_optional", "aten::append", "aten::clear", "aten::dict", "aten::extend", "aten::get",
        "aten::hash", "aten::insert", "aten::items", "aten::keys", "aten::len", "aten::list", "aten::pop",
        "aten::popitem", "aten::remove", "aten::reverse", "aten::setdefault", "aten::sorted", "aten::update",
        "prim::EnumName", "prim::EnumValue", "prim::IfThenElse", "prim::ModuleContainerIndex", "prim::TupleIndex",
        "prim::TupleUnpack", "prim::Uninitialized", "prim::id", "prim::index", "prim::unchecked_cast",
        "prim::unchecked_unwrap_optional",
        // Tensors.
        "aten::Size", "aten::__interpolate", "aten::__upsample", "aten::__upsample_bilinear",
        "aten::__upsample_nearest", "aten::_grad_sum_to_size", "aten::_infer_size", "aten::_list_to_tensor",
        "aten::_ncf_unsqueeze", "aten::_ncf_view", "aten::_no_grad_embedding_renorm_", "aten::_no_grad_fill_",
        "aten::_no_grad_normal_", "aten::_no_grad_uniform_", "aten::_no_grad_zero_", "aten::_pack_sequence",
        "aten::_size_if_not_equal", "aten::_tensor_to_list", "aten::as_tensor", "aten::cpu", "aten::cuda",
        "aten::device", "aten::dim", "aten::element_size", "aten::get_device", "aten::grad", "aten::is_contiguous",
        "aten::is_non_overlapping_and_dense", "aten::is_strides_like_format", "aten::numel", "aten::storage_offset",
        "aten::tensor", "prim::data", "prim::device", "prim::dtype", "prim::grad", "prim::is_cpu", "prim::is_cuda",
        "prim::is_ipu", "prim::is_maia", "prim::is_meta", "prim::is_mkldnn", "prim::is_mps", "prim::is_mtia",
        "prim::is_nested", "prim::is_quantized", "prim::is_sparse", "prim::is_sparse_csr", "prim::is_vulkan",
        "prim::is_xla", "prim::is_xpu", "prim::itemsize", "prim::layout", "prim::name", "prim::nbytes",
        "prim::requires_grad", "prim::tolist", "prim::type",
        // State of the thread, questions about it, and what a program says.
        "aten::Generator", "aten::_get_cpu_capability", "aten::_get_tracing_state", "aten::get_autocast_dtype",
        "aten::has_torch_function", "aten::initial_seed", "aten::is_autocast_cpu_enabled", "aten::is_autocast_enabled",
        "aten::is_grad_enabled", "aten::is_scripting", "aten::manual_seed", "aten::seed", "aten::set_grad_enabled",
        "aten::wait", "aten::warn", "prim::Print", "prim::RaiseException", "prim::awaitable_nowait",
        "prim::awaitable_wait",
        // This recorder's own (torchscript_modules.cpp).
        "headroom::module_enter", "headroom::module_exit"};
    return names;
}

/// Operators of the dispatcher that take no tensor and give none.
const Names& sizeOperators()
{
    static const Names names{"aten::_assert_scalar",      "aten::can_cast",
                             "aten::promote_types",       "aten::result_type",
                             "aten::sym_constrain_range", "aten::sym_constrain_range_for_size"};
    return names;
}

bool contains(const c10::Type& type, c10::TypeKind kind)
{
    return type.kind() == kind || std::ranges::any_of(type.containedTypes(), [&](const c10::TypePtr& inner) {
               return contains(*inner, kind);
           });
}

bool isHarmless(const c10::Argument& argument)
{
    const c10::Type& type = *argument.type();
    for (const auto handle : {c10::TypeKind::ClassType, c10::TypeKind::CapsuleType, c10::TypeKind::StorageType,
                              c10::TypeKind::StreamObjType, c10::TypeKind::RRefType, c10::TypeKind::PyObjectType,
                              c10::TypeKind::QuantizerType})
        if (contains(type, handle))
            return false;
    return !contains(type, c10::TypeKind::StringType) || harmlessTexts().contains(argument.name());
}

bool isAllowed(const torch::jit::Operator& op)
{
    const c10::FunctionSchema& schema = op.schema();
    return scriptOperators().contains(schema.name())
        || (op.isC10Op() && isTensorOperator(schema))
        // Operators of Python's numbers and lists share the names of operators on tensors.
        || (!op.isC10Op() && schema.name().starts_with("aten::") && !schema.is_vararg()
            && std::ranges::all_of(schema.arguments(), isHarmless)
            && std::ranges::any_of(torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(schema.name())),
                                   [](const auto& other) { return other->isC10Op(); }));
}

Names& withheld()
{
    static Names names;
    return names;
}

} // namespace

bool isTensorOperator(const c10::FunctionSchema& schema)
{
    if (sizeOperators().contains(schema.name()))
        return true;
    const auto isTensor = [](const c10::Argument& one) { return contains(*one.type(), c10::TypeKind::TensorType); };
    return schema.name().starts_with("aten::") && std::ranges::all_of(schema.arguments(), isHarmless)
        && std::ranges::all_of(schema.returns(), isHarmless)
        && (std::ranges::any_of(schema.arguments(), isTensor) || std::ranges::any_of(schema.returns(), isTensor));
}

void withholdOperators()
{
    static const bool once = [] {
        const auto refused = [] {
            std::vector<std::shared_ptr<torch::jit::Operator>> operators = torch::jit::getAllOperators();
            std::erase_if(operators, [](const auto& op) { return isAllowed(*op); });
            return operators;
        };
        for (const auto& op : refused()) {
            withheld().insert(op->schema().name());
            torch::jit::deregisterOperator(op->schema());
        }
        const auto kept = refused();
        if (!kept.empty())
            throw std::runtime_error("libtorch keeps the operator " + kept.front()->schema().name()
                                     + ", and a model file may not use that operator");
        return true;
    }();
    (void)once;
}

std::string withheldOperator(std::string_view message)
{
    for (const std::string_view before : {"Unknown builtin op: ", "Schema not found for node", "operator "}) {
        const std::size_t begin = message.find(before);
        if (begin == std::string_view::npos)
            continue;
        std::string_view rest = message.substr(begin + before.size());
        constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:";
        rest = rest.substr(std::min(rest.find_first_of(letters), rest.size()));
        const std::string_view name = rest.substr(0, rest.find_first_not_of(letters));
        if (withheld().contains(name))
            return std::string(name);
    }
    return {};
}

} // namespace headroom
