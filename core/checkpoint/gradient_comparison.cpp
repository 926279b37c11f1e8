// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/gradient_comparison.h"

#include "core/base/try.h"
#include "core/model/step_runner.h"

#include <ATen/Context.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/max.h>
#include <ATen/ops/sub.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <vector>

namespace headroom {
namespace {

struct NamedGradients
{
    std::vector<std::string> names;
    std::vector<at::Tensor> gradients;
};

NamedGradients takeGradients(const ModelTree& tree)
{
    std::unordered_map<const c10::TensorImpl*, std::string> names;
    for (const ModelTree::Registered& registered : tree.registered)
        names.try_emplace(registered.tensor.unsafeGetTensorImpl(),
                          tree.modules[registered.module.value].fqn + "." + registered.name);
    NamedGradients taken;
    for (at::Tensor& parameter : trainableParameters(tree)) {
        if (parameter.grad().defined()) {
            taken.names.push_back(names[parameter.unsafeGetTensorImpl()]);
            taken.gradients.push_back(parameter.grad().contiguous());
        }
        parameter.mutable_grad() = at::Tensor();
    }
    return taken;
}

double largestDifference(const at::Tensor& a, const at::Tensor& b)
{
    if (a.sizes() != b.sizes())
        return std::numeric_limits<double>::infinity();
    const double difference = at::max(at::abs(at::sub(a.to(at::kDouble), b.to(at::kDouble)))).item().toDouble();
    return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

Result<NamedGradients> gradientsOf(const ModelTree& tree, const std::function<Status()>& run)
{
    constexpr std::uint64_t seed = 20;
    at::manual_seed(seed);
    RETURN_IF_ERROR(run());
    return takeGradients(tree);
}

GradientComparison difference(const NamedGradients& plain, const NamedGradients& other)
{
    GradientComparison result;
    result.parameters = plain.gradients.size();
    if (plain.names != other.names) {
        result.parameter = "the list of parameters with a gradient";
        result.largestDifference = std::numeric_limits<double>::infinity();
        return result;
    }
    for (std::size_t i = 0; i < plain.gradients.size(); ++i) {
        if (equalToTheBit(plain.gradients[i], other.gradients[i]))
            continue;
        const double difference = largestDifference(plain.gradients[i], other.gradients[i]);
        if (result.parameter.empty() || difference > result.largestDifference) {
            result.parameter = plain.names[i];
            result.largestDifference = difference;
        }
    }
    return result;
}

} // namespace

bool equalToTheBit(const at::Tensor& a, const at::Tensor& b)
{
    if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type())
        return false;
    const at::Tensor here = a.cpu().contiguous();
    const at::Tensor there = b.cpu().contiguous();
    return std::memcmp(here.const_data_ptr(), there.const_data_ptr(), here.nbytes()) == 0;
}

Result<GradientComparison> compareGradients(const ModelTree& tree, const std::function<Status()>& plainly,
                                            const std::function<Status()>& otherwise)
{
    ASSIGN_OR_RETURN(const auto plain, gradientsOf(tree, plainly));
    ASSIGN_OR_RETURN(const auto other, gradientsOf(tree, otherwise));
    GradientComparison result = difference(plain, other);
    if (result.equal())
        return result;
    ASSIGN_OR_RETURN(const auto again, gradientsOf(tree, plainly));
    result.unrepeatable = difference(plain, again).parameter;
    return result;
}

} // namespace headroom
