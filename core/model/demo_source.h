// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/layers.h"
#include "core/model/source.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>

namespace headroom::demo {

/// The largest batch of a demo.
inline constexpr std::int64_t mostSamples = 65'536;

/// Returns a batch of random numbers, without values on the simulated device.
inline at::Tensor randomInput(const ModelRequest& request, const std::vector<std::int64_t>& sizes)
{
    const auto options = at::TensorOptions(request.device).dtype(request.dtype.value_or(at::kFloat));
    return computes(request.device) ? at::randn(sizes, options) : at::empty(sizes, options);
}

/// A demo model with its batch. `Model` has `id` and `forward(const at::Tensor&)`.
template <class Model>
class DemoSource final : public ModelSource
{
public:
    /// `longest` is the longest sequence; 0: the model has no sequence dimension.
    DemoSource(ModelTree tree, Model model, const at::Tensor& input, std::int64_t longest)
        : tree_(std::move(tree))
        , model_(std::move(model))
        , inputs_{input}
        , longest_(longest)
    {
    }
    const ModelTree& tree() const override { return tree_; }
    const std::vector<at::Tensor>& inputs() const override { return inputs_; }
    std::vector<at::Tensor> forward() override { return {call(model_, inputs_.front())}; }
    std::int64_t batch() const override { return inputs_.front().size(0); }
    std::int64_t sequence() const override { return longest_ != 0 ? inputs_.front().size(1) : 0; }
    std::vector<StepInfo::Dimension> dimensions() const override
    {
        std::vector<StepInfo::Dimension> dimensions{{"batch", batch(), 1, mostSamples}};
        if (longest_ != 0)
            dimensions.push_back({"sequence", sequence(), 1, longest_});
        return dimensions;
    }

private:
    ModelTree tree_;
    Model model_;
    std::vector<at::Tensor> inputs_;
    std::int64_t longest_;
};

} // namespace headroom::demo
