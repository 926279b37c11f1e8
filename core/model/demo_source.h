// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/layers.h"
#include "core/model/source.h"

namespace headroom::demo {

/// The largest batch of a demo.
inline constexpr std::int64_t mostSamples = 65'536;

/// What all demos share: a demo model with its batch. `Model` has `id` and `forward(const at::Tensor&)`.
template <class Model>
class DemoSource final : public ModelSource
{
public:
    struct Parts
    {
        ModelTree tree;
        Model model;
        at::Tensor input;
        std::int64_t batch;
        std::int64_t sequence;
        std::int64_t longest; ///< longest sequence; 0: the model has no sequence dimension
    };
    explicit DemoSource(Parts parts)
        : parts_(std::move(parts))
        , inputs_{parts_.input}
    {
    }
    const ModelTree& tree() const override { return parts_.tree; }
    const std::vector<at::Tensor>& inputs() const override { return inputs_; }
    std::vector<at::Tensor> forward() override { return {call(parts_.model, inputs_.front())}; }
    std::int64_t batch() const override { return parts_.batch; }
    std::int64_t sequence() const override { return parts_.sequence; }
    std::vector<StepInfo::Dimension> dimensions() const override
    {
        std::vector<StepInfo::Dimension> dimensions{{"batch", parts_.batch, 1, mostSamples}};
        if (parts_.longest != 0)
            dimensions.push_back({"sequence", parts_.sequence, 1, parts_.longest});
        return dimensions;
    }

private:
    Parts parts_;
    std::vector<at::Tensor> inputs_;
};

} // namespace headroom::demo
