// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/exported/graph_program.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace headroom::exported {

/// Runs a program once: values by slot, the calls of modules and the scopes that are open. What is open is left in
/// order when an exception ends the run.
class GraphRunner
{
public:
    explicit GraphRunner(const GraphProgram& program);
    ~GraphRunner();
    GraphRunner(const GraphRunner&) = delete;
    GraphRunner& operator=(const GraphRunner&) = delete;

    void set(Slot slot, c10::IValue value) { values_[slot.value] = std::move(value); }
    const c10::IValue& get(Slot slot) const { return values_[slot.value]; }
    /// Throws ModelFailed with the place of the node that failed.
    void run();

private:
    struct Scope;

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
    std::vector<CallId> calls_;
    std::vector<std::unique_ptr<Scope>> scopes_;
};

} // namespace headroom::exported
