// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/exported/graph_program.h"
#include "core/record/module_call.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

namespace headroom::exported {

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

} // namespace headroom::exported
