// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/model/exported/exported_program.h"
#include "core/model/exported/graph_program.h"
#include "core/model/source.h"
#include "core/record/module_call.h"
#include "core/record/recorder.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace headroom::exported {

/// Loads the tensors of a file to a device: each storage once, a tied parameter as a single tensor under several names.
/// Nothing is read for the simulated device. Errors (badInput): a file without weights on a device that computes.
Result<std::map<std::string, at::Tensor>> loadWeights(const ExportedProgram& program, at::Device device);

/// A module tree, with module ids by the file's names.
struct NamedTree
{
    ModelTree tree;
    std::map<std::string, ModuleId> ids; ///< by FQN; "" is the root
};

/// Returns all modules in the order of model.modules(), with the modules' own tensors. The graph has the types of
/// modules that run; the types of other containers are deduced from the children.
NamedTree makeTree(const ExportedProgram& program, const std::map<std::string, at::Tensor>& tensors);

/// Values of dynamic dimensions, by symbol.
using Symbols = std::map<std::string, std::int64_t>;

/// Returns the symbol of a size; nullopt for numbers and for expressions such as 2*s0.
std::optional<std::string> symbolOf(const Size& size);
/// Returns the value of a size; nullopt for an expression that is not supported, or a symbol without a value.
std::optional<std::int64_t> evaluate(const Size& size, const Symbols& symbols);

/// The sizes of a step.
struct ChosenSizes
{
    Symbols symbols;
    std::int64_t batch = 0;
    std::int64_t sequence = 0; ///< 0: the model has no sequence dimension
    std::vector<StepInfo::Dimension> dimensions; ///< the dimensions that the user can choose
};

/// Chooses the sizes. Batch is the first dimension of the first input that has one. Sequence is the second dimension of
/// the first input of tokens, or of (batch, sequence, width). Errors (badInput): a size outside of the exported range,
/// or a chosen size that the file fixes.
Result<ChosenSizes> chooseSizes(const ExportedProgram& program, const ModelRequest& request);

/// Values that are the same in every run of a program: parameters, buffers and constants of the file.
using FixedValues = std::shared_ptr<const std::vector<std::pair<Slot, c10::IValue>>>;

/// Runs a program once. It holds the values by slot, the open module calls and the open scopes; if an exception ends
/// the run, it closes them in order. Module calls are offered to the ModuleCallHandler, which may run one of them again
/// in backward: the program must live until then.
class GraphRunner
{
public:
    GraphRunner(const GraphProgram& program, FixedValues fixed);
    ~GraphRunner();
    GraphRunner(const GraphRunner&) = delete;
    GraphRunner& operator=(const GraphRunner&) = delete;

    void set(Slot slot, c10::IValue value) { values_[slot.value] = std::move(value); }
    const c10::IValue& get(Slot slot) const { return values_[slot.value]; }
    /// Throws ModelFailed with the place of the node that failed.
    void run();

private:
    struct Scope;
    struct Call
    {
        CallId id;
        std::unique_ptr<ModuleCallHandler::Open> handled; ///< null: no handler took the call
    };

    void run(std::size_t begin, std::size_t end);
    RegionFunction again(const EnterModule& enter) const;
    void execute(const Instruction& instruction);
    void act(const CallOperator& call);
    void act(const Compute& compute);
    void act(const EnterModule& enter);
    void act(const ExitModule& exit);
    void act(const EnterGradMode& enter);
    void act(const EnterAutocast& enter);
    void act(const LeaveScope& leave);
    c10::IValue value(const Operand& operand) const;
    std::vector<at::Tensor> tensors(const std::vector<Slot>& slots) const;

    const GraphProgram& program_;
    std::vector<c10::IValue> values_;
    FixedValues fixed_;
    std::vector<Call> calls_;
    std::vector<std::unique_ptr<Scope>> scopes_;
};

/// A .pt2 file that is open on a device. The graph runs node by node through the dispatcher, with autograd.
class ExportedModel final : public ModelSource
{
public:
    /// Errors (badInput) as openModel().
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
