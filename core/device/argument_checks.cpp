// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/argument_checks.h"

#include "core/base/words.h"
#include "core/device/argument_check_ops.h"
#include "core/device/boxed_values.h"
#include "core/device/simulated_state.h"

#include <ATen/core/op_registration/adaption.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;
using torch::jit::Stack;

using Table = std::unordered_map<std::string_view, DeviceCheck>;

const Table& table()
{
    static const auto* const all = [] {
        auto* const made = new Table;
        for (const auto& [names, check] :
             {std::pair(structuredOps, DeviceCheck::structured), std::pair(otherOps, DeviceCheck::same),
              std::pair(iteratorOps, DeviceCheck::iterator), std::pair(indexedOps, DeviceCheck::indexed),
              std::pair(maskedOps, DeviceCheck::masked), std::pair(uncheckedOps, DeviceCheck::none)})
            forEachWord(names, [&, check = check](std::string_view name) { made->emplace(name, check); });
        return made;
    }();
    return *all;
}

bool writes(const c10::Argument& argument)
{
    return argument.alias_info() && argument.alias_info()->isWrite();
}

bool isOut(const c10::Argument& argument)
{
    return argument.is_out();
}

/// Returns the name that PyTorch's code generator gives to CUDA's kernel of the op, which its message names.
std::string wrapperOf(const c10::OperatorHandle& op, DeviceCheck check)
{
    const std::string& overload = op.operator_name().overload_name;
    std::string name = op.operator_name().name.substr(std::string_view("aten::").size());
    if (std::ranges::any_of(op.schema().arguments(), isOut))
        name += "_out";
    if (check == DeviceCheck::structured)
        return "wrapper_CUDA_" + name + (overload.empty() ? "" : "_" + overload);
    return "wrapper_CUDA_" + overload + "_" + name;
}

/// Repeats the check that PyTorch's code generator writes into CUDA's kernels: out= arguments first, then those that
/// are no keywords.
void requireOneDevice(const c10::OperatorHandle& op, const Stack& stack, DeviceCheck check)
{
    const auto& arguments = op.schema().arguments();
    const auto values = argumentsOf(op, stack);
    std::optional<c10::Device> common;
    const auto compare = [&](std::size_t i) {
        forEachTensor(values[i], [&](const Tensor& tensor) {
            if (!common)
                common = tensor.device();
            else if (*common != tensor.device())
                c10::impl::common_device_check_failure(*common, tensor, wrapperOf(op, check).c_str(),
                                                       arguments[i].name().c_str());
        });
    };
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (isOut(arguments[i]))
            compare(i);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (!arguments[i].kwarg_only())
            compare(i);
    }
}

[[noreturn]] void throwTwoDevices(c10::Device other)
{
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ",
                c10::Device(simulatedState().type, 0), " and ", other, "!");
}

/// Repeats the check of TensorIterator, which takes a number on the CPU as an input.
void requireIteratorDevice(const c10::OperatorHandle& op, const Stack& stack)
{
    const auto& arguments = op.schema().arguments();
    const auto values = argumentsOf(op, stack);
    for (std::size_t i = 0; i < values.size(); ++i) {
        forEachTensor(values[i], [&](const Tensor& tensor) {
            if (tensor.device().is_cpu() && (tensor.dim() > 0 || writes(arguments[i])))
                throwTwoDevices(tensor.device());
        });
    }
}

/// _foreach_f(self, other, …): lists on several devices are computed tensor by tensor.
void requireDevicesOfLists(const c10::OperatorHandle& op, const Stack& stack)
{
    const auto& arguments = op.schema().arguments();
    const auto values = argumentsOf(op, stack);
    std::vector<bool> onDevice;
    const auto forEachElement = [&](auto&& visit) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            std::size_t position = 0;
            if (isListOfTensors(values[i]))
                forEachTensor(values[i], [&](const Tensor& tensor) { visit(i, position++, tensor); });
        }
    };
    forEachElement([&](std::size_t, std::size_t position, const Tensor& tensor) {
        onDevice.resize(std::max(onDevice.size(), position + 1));
        onDevice[position] = onDevice[position] || isSimulated(tensor.device());
    });
    forEachElement([&](std::size_t argument, std::size_t position, const Tensor& tensor) {
        if (tensor.device().is_cpu() && onDevice[position] && (tensor.dim() > 0 || writes(arguments[argument])))
            throwTwoDevices(tensor.device());
    });
}

/// f(self, indices, values, …): a number on the CPU among the values is moved.
void requireIndexedDevice(const c10::OperatorHandle& op, const Stack& stack)
{
    const auto values = argumentsOf(op, stack);
    const c10::Device device = values[0].toTensor().device();
    forEachTensor(values[1], [&](const Tensor& index) {
        TORCH_CHECK(index.device().is_cpu() || index.device() == device,
                    "indices should be either on cpu or on the same device as the indexed tensor (", device, ")");
    });
    if (values.size() < 3)
        return;
    const Tensor& written = values[2].toTensor();
    if (written.device() != device && written.dim() > 0)
        throwTwoDevices(c10::kCPU);
}

/// f(self, mask, value).
void requireMaskedDevice(const c10::OperatorHandle& op, const Stack& stack)
{
    const auto values = argumentsOf(op, stack);
    const Tensor& self = values[0].toTensor();
    const Tensor& mask = values[1].toTensor();
    TORCH_CHECK(!self.device().is_cpu() || !values[2].isTensor(), "masked_fill_: Expected inputs to be on same device");
    TORCH_CHECK(self.device() == mask.device(), "expected self and mask to be on the same device, but got mask on ",
                mask.device(), " and self on ", self.device());
}

} // namespace

std::string atenNameOf(const c10::OperatorHandle& op)
{
    constexpr std::string_view prefix = "aten::";
    const std::string& name = op.operator_name().name;
    const std::string& overload = op.operator_name().overload_name;
    return name.starts_with(prefix) ? name.substr(prefix.size()) + (overload.empty() ? "" : "." + overload) : "";
}

DeviceCheck deviceCheckOf(const c10::OperatorHandle& op)
{
    const std::string name = atenNameOf(op);
    if (name.starts_with("_foreach_") && name != "_foreach_copy_")
        return DeviceCheck::lists;
    const auto found = table().find(name);
    return found == table().end() ? DeviceCheck::none : found->second;
}

void checkDevices(const c10::OperatorHandle& op, const Stack& stack, DeviceCheck check)
{
    switch (check) {
    case DeviceCheck::none:
        return;
    case DeviceCheck::structured:
    case DeviceCheck::same:
        return requireOneDevice(op, stack, check);
    case DeviceCheck::iterator:
        return requireIteratorDevice(op, stack);
    case DeviceCheck::lists:
        return requireDevicesOfLists(op, stack);
    case DeviceCheck::indexed:
        return requireIndexedDevice(op, stack);
    case DeviceCheck::masked:
        return requireMaskedDevice(op, stack);
    }
}

} // namespace headroom::sim
