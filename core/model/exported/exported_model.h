// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/exported/graph_runner.h"
#include "core/model/exported/sizes.h"
#include "core/model/exported/weights.h"
#include "core/model/source.h"

#include <map>
#include <string>
#include <vector>

namespace headroom::exported {

/// A .pt2 file that is open on a device. Its graph runs node by node through the dispatcher, with autograd.
class ExportedModel final : public ModelSource
{
public:
    static Result<std::unique_ptr<ExportedModel>> open(ExportedProgram program, const ModelRequest& request);

    const ModelTree& tree() const override { return tree_; }
    const std::vector<at::Tensor>& inputs() const override { return inputs_; }
    std::vector<at::Tensor> forward() override;
    std::int64_t batch() const override { return sizes_.batch; }
    std::int64_t sequence() const override { return sizes_.sequence; }
    std::vector<StepInfo::Dimension> dimensions() const override { return sizes_.dimensions; }
    Lifetimes lifetimes() const override { return lifetimes_; }
    std::vector<std::string> notes() const override;

    /// Replaces the batch by tensors of the same shapes, in the order of inputs().
    void setInputs(std::vector<at::Tensor> inputs) { inputs_ = std::move(inputs); }
    /// Parameters, buffers and constants by FQN.
    const std::map<std::string, at::Tensor>& tensors() const { return tensors_; }

private:
    ExportedModel() = default;
    Status makeInputs(at::Device device);
    c10::IValue valueOf(std::size_t input, std::size_t& next) const;
    void writeBack(const std::string& target, const at::Tensor& value);

    ExportedProgram program_;
    GraphProgram graph_;
    ModelTree tree_;
    std::map<std::string, at::Tensor> tensors_;
    FixedValues fixed_; ///< the same tensors, by slot
    std::vector<at::Tensor> inputs_;
    ChosenSizes sizes_;
    Lifetimes lifetimes_ = Lifetimes::graph;
};

} // namespace headroom::exported
