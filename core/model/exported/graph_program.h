// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/ids.h"
#include "core/model/exported/exported_program.h"
#include "core/model/source.h"
#include "core/record/recorder.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// A graph that was compiled to run many times: operators are looked up, names are replaced by slots, inner graphs are
/// inlined, and each instruction has the values that die after the instruction.
namespace headroom::exported {

/// The index of a value while the program runs.
using Slot = Index<struct SlotTag>;

/// An argument of an operator.
struct Operand
{
    enum class OperandType {
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
        Slot slot; ///< invalid: `constant` is the element
        c10::IValue constant;
    };
    OperandType kind = OperandType::constant;
    std::vector<Element> elements; ///< a single entry, except for lists
};

struct CallOperator
{
    c10::OperatorHandle op;
    std::vector<Operand> operands;
    std::vector<std::vector<Slot>> results; ///< by return: the slot, or the slots of a list's elements
    /// The operator is aten.view. Runs as reshape if the layout needs that: a model exported on a CPU may lack a
    /// contiguous() that another device needs.
    bool isView = false;
};

/// Computes with sizes.
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
    std::size_t begin = 0; ///< index of this instruction
    std::size_t end = 0; ///< index of the ExitModule
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
    std::optional<at::ScalarType> dtype; ///< nullopt: the device's current type
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
    std::vector<Slot> dying; ///< values that die after the instruction
    FrameId frame; ///< of the process (core/device/source_frames.h); invalid: not known
    std::string place; ///< operator and module, for messages: "aten.mm.default in GPT.head (gpt.py:31)"
};

struct GraphProgram
{
    struct Input
    {
        Slot slot; ///< invalid: a constant, unused in the graph
        bool given = true; ///< set by the caller; otherwise a parameter, buffer or constant of the file
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

/// Options of compileGraph().
struct CompileOptions
{
    at::Device device = at::kCPU; ///< device to run the model on
    Lifetimes lifetimes = Lifetimes::graph;
    std::function<ModuleId(const std::string& fqn)> moduleOf;
    std::function<std::string(const std::string& fqn)> nameOf; ///< returns a module's name for messages
};

/// Compiles a graph. Errors (badInput): an operator that this libtorch lacks, a value that no node computes, an
/// argument of a wrong type. The message names the module and the source line of the node.
Result<GraphProgram> compileGraph(const ExportedProgram& program, const CompileOptions& options);

/// Returns the function of a node such as "_operator.mul"; empty if the name is unknown.
std::function<c10::IValue(const std::vector<c10::IValue>&)> sizeFunction(const std::string& target);

/// Sets the instruction at which each value dies, and the arguments and results of modules.
void addLifetimes(GraphProgram& program, Lifetimes lifetimes);

/// The exception for a fault of the graph; compileGraph() converts it to an Error.
struct Uncompilable
{
    std::string message;
};

/// Makes the operands of operators from arguments of the graph. Throws Uncompilable.
class OperandMaker
{
public:
    using Names = std::map<std::string, Slot>;

    OperandMaker(at::Device device, at::DeviceType exportedOn)
        : device_(device)
        , exportedOn_(exportedOn)
    {
    }
    Operand make(const Argument& argument, const c10::Type& formal, const Names& names) const;
    /// Makes an operand of any type: a size, or an argument of a higher-order operator.
    Operand makePlain(const Argument& argument, const Names& names) const;

    /// Returns the device that replaces a device of the file.
    at::DeviceType deviceFor(at::DeviceType inFile) const;

private:
    Operand list(const Argument& argument, const c10::Type& element, const Names& names) const;
    c10::IValue constantFor(const c10::IValue& constant, const c10::Type& formal) const;

    at::Device device_;
    at::DeviceType exportedOn_;
};

} // namespace headroom::exported
