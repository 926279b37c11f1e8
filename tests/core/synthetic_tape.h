// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace_builder.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace headroom {

/// A made-up autograd: ops of the forward push what their backward does onto a tape, backward() runs it in reverse with
/// the events that PyTorch's engine causes. One gradient flows back at a time; residual connections keep a second one.
class SyntheticTape
{
public:
    struct Parameter
    {
        StorageId storage;
        StorageId momentum, variance;
        StorageId gradient;
        Bytes bytes = 0;
        bool trained = true; ///< others have no gradient
    };

    struct Op
    {
        const char* name;
        const char* node; ///< empty: autograd makes none
        std::vector<StorageId> inputs;
        std::vector<Bytes> outputs; ///< none: the result is an alias of the first input
        std::vector<StorageId> saved; ///< inputs that autograd saves
        bool savesOutputs = false;
        std::optional<std::size_t> parameter = {}; ///< that backward makes a gradient for
        Bytes gradient = 0; ///< of the input; 0: backward makes none
        std::uint16_t flags = 0;
        double flops = 0;
    };

    StepTraceBuilder builder;
    std::vector<Parameter> parameters;
    ModuleId root;

    std::size_t addParameter(ModuleId owner, const char* name, Bytes bytes, bool trained = true);
    void addOptimizerStates();

    void enter(ModuleId self, StorageId argument);
    StorageId exit(StorageId result);

    /// Returns the first output, which the program holds; the others are only saved.
    StorageId op(const Op& spec);

    void residualBegin(Bytes bytes);
    StorageId residualEnd(StorageId x, StorageId branch, Bytes bytes); ///< x + branch; the program lets both go

    void backward(StorageId loss); ///< and lets the loss go
    void optimizerStep();
    void zeroGrad();

private:
    /// What backward does when it comes to this place.
    struct Entry
    {
        enum class Kind { node, callBegin, callEnd, residualBegin, residualEnd };
        Kind kind = Kind::node;
        CallId call;
        OpId op;
        std::string node;
        std::vector<PackId> packs;
        std::optional<std::size_t> parameter;
        Bytes gradient = 0;
    };

    std::vector<StorageId> backwardOp(const char* name, const Entry& entry, std::vector<Bytes> outputs);
    void runNode(const Entry& entry);
    void replaceGradient(StorageId next);
    void addResidual(const Entry& entry);

    std::vector<std::pair<CallId, ModuleId>> callStack_;
    std::vector<Entry> tape_;
    std::vector<StorageId> residuals_; ///< gradients that a residual connection keeps
    StorageId gradient_; ///< the one that flows back
};

} // namespace headroom
