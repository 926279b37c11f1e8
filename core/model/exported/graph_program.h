// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/ids.h"
#include "core/model/exported/exported_program.h"
#include "core/model/source.h"
#include "core/record/recorder.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// A graph made ready to run many times: operators looked up, names turned into slots, inner graphs written out in
/// line, and every value given the place where it dies.
namespace headroom::exported {

/// Place of one value while the program runs.
using Slot = Index<struct SlotTag>;

/// An argument of an operator.
struct Operand
{
    enum class Kind {
        constant,
        value,
        wrappedNumber, ///< a number where the operator takes a tensor
        tensors,
        optionalTensors,
        integers,
        numbers,
    };
    struct Element
    {
        Slot slot; ///< invalid: the constant
        c10::IValue constant;
    };
    Kind kind = Kind::constant;
    std::vector<Element> elements; ///< one, but for lists
};

struct CallOperator
{
    c10::OperatorHandle op;
    std::vector<Operand> operands;
    std::vector<std::vector<Slot>> results; ///< of each return: its slot, or those of a list's elements
    /// aten.view: what was exported on a CPU may lack the contiguous() that other layouts need.
    bool isView = false;
};

/// Arithmetic of sizes.
struct Compute
{
    std::function<c10::IValue(const std::vector<c10::IValue>&)> function;
    std::vector<Operand> operands;
    Slot result; ///< invalid: an assertion
};

struct EnterModule
{
    ModuleId module;
    std::vector<Slot> arguments;
    std::size_t begin = 0; ///< this instruction
    std::size_t end = 0; ///< that of its exit
};

struct ExitModule
{
    std::vector<Slot> results;
};

/// `with torch.set_grad_enabled(enabled)` begins.
struct EnterGradMode
{
    bool enabled = true;
};

/// `with torch.autocast(device, dtype, enabled, cache_enabled)` begins.
struct EnterAutocast
{
    at::DeviceType device = at::kCPU;
    std::optional<at::ScalarType> dtype; ///< none: the device's usual one
    bool enabled = true;
    std::optional<bool> cache;
};

/// The innermost `with` ends.
struct LeaveScope
{
};

struct Instruction
{
    std::variant<CallOperator, Compute, EnterModule, ExitModule, EnterGradMode, EnterAutocast, LeaveScope> action;
    std::vector<Slot> dying; ///< values that nobody holds any more after it
    std::string place; ///< what failed and where, for messages: "aten.mm.default in GPT.head (gpt.py:31)"
};

struct GraphProgram
{
    struct Input
    {
        Slot slot; ///< invalid: a constant, which the graph does not use
        bool given = true; ///< by the caller; else a parameter, buffer or constant of the file
    };
    struct Mutation
    {
        Slot value;
        std::string target; ///< FQN of a parameter or buffer, or name of an input
    };
    std::vector<Instruction> instructions;
    std::size_t slots = 0;
    std::vector<Input> inputs; ///< by position in ExportedProgram::inputs
    std::vector<Slot> results; ///< tensors that forward returns
    std::vector<Mutation> mutations;
};

/// What compiling needs to know beside the graph.
struct CompileOptions
{
    at::Device device = at::kCPU; ///< that the model shall run on
    Lifetimes lifetimes = Lifetimes::graph;
    std::function<ModuleId(const std::string& fqn)> moduleOf;
    std::function<std::string(const std::string& fqn)> nameOf; ///< of a module, for messages
};

/// Errors (badInput): an operator that this libtorch does not have, a value that nobody makes, an argument of another
/// type than the operator takes; with the module and the source line of the node.
Result<GraphProgram> compileGraph(const ExportedProgram& program, const CompileOptions& options);

/// The function of a node such as "_operator.mul"; empty when there is none of that name.
std::function<c10::IValue(const std::vector<c10::IValue>&)> sizeFunction(const std::string& target);

/// Adds where each value dies, and what modules are given and return.
void addLifetimes(GraphProgram& program, Lifetimes lifetimes);

} // namespace headroom::exported
