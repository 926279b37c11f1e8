// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/model/zip_archive.h"

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// What a .pt2 file says, as torch/_export/serde/schema.py declares it: checked, typed, and nothing run.
namespace headroom::exported {

/// A size: a number, or an expression of dynamic dimensions as sympy prints it ("Symbol('s10', …)").
struct Size
{
    std::int64_t number = 0; ///< of an expression: its value when the model was exported (its hint), 0 when unknown
    std::string expression; ///< empty: a number
};

/// Shape and type of a tensor.
struct TensorMeta
{
    at::ScalarType dtype = at::kFloat;
    at::DeviceType device = at::kCPU; ///< that it was exported on
    std::vector<Size> sizes;
    std::vector<Size> strides;
    Size offset; ///< in elements, into the storage
    bool requiresGrad = false;
};

struct Graph;

/// One argument of a node, or one result: a constant, a value by name, a list that mixes both, or a graph.
struct Argument
{
    /// An element of a list. `name` is empty for a constant.
    struct Element
    {
        std::string name;
        c10::IValue constant;
    };
    enum class Kind {
        constant,
        value, ///< elements has one
        list,
        graph
    };
    Kind kind = Kind::constant;
    c10::IValue constant; ///< None included
    std::vector<Element> elements;
    std::shared_ptr<const Graph> graph;
};

/// One line of a forward: the call of an operator, or an arithmetic of sizes.
struct Node
{
    /// A module's forward in which the node runs.
    struct Frame
    {
        std::string call; ///< tells calls of one module apart: "L__self__lin@1"
        std::string fqn; ///< "" for the root
        std::string type; ///< class name without its Python module
    };
    std::string target; ///< "torch.ops.aten.linear.default", "_operator.add"
    std::vector<std::pair<std::string, Argument>> inputs; ///< by name of the operator's argument
    std::vector<Argument> outputs;
    std::vector<Frame> frames; ///< outermost first; empty: exporting made the node
    std::string where; ///< innermost source line, "models/gpt.py:31"; may be empty
};

struct Graph
{
    std::vector<Argument> inputs;
    std::vector<Argument> outputs;
    std::vector<Node> nodes;
    std::map<std::string, TensorMeta> tensors; ///< by name of the value
    std::map<std::string, Size> numbers; ///< by name of the value
};

/// What one input of the root graph is.
struct InputSpec
{
    enum class Kind { user, parameter, buffer, constantTensor, constant };
    Kind kind = Kind::user;
    Argument argument;
    std::string name; ///< FQN of the parameter, buffer or constant
};

/// What one output of the root graph is.
struct OutputSpec
{
    enum class Kind {
        result,
        mutation, ///< the value that a parameter, buffer or input has after the step
    };
    Kind kind = Kind::result;
    Argument argument;
    std::string target; ///< of a mutation: FQN of the parameter or buffer, or name of the input
};

/// A tensor of the file: parameter, buffer or constant.
struct Weight
{
    TensorMeta meta;
    std::string record; ///< in the archive; tensors of one storage name the same one
    std::size_t bytes = 0; ///< of the record; 0 for a model that was exported without weights
};

/// Bounds of a dynamic dimension.
struct Range
{
    std::optional<std::int64_t> least;
    std::optional<std::int64_t> most;
};

/// A torch.export archive.
struct ExportedProgram
{
    std::string name; ///< the file's, for messages
    std::string torchVersion; ///< that exported it
    Graph graph;
    std::vector<InputSpec> inputs; ///< in the order of graph.inputs
    std::vector<OutputSpec> outputs;
    std::vector<std::string> modules; ///< FQN of all modules, in the order of model.named_modules(); "" is the root
    std::map<std::string, Range> ranges; ///< by symbol
    std::map<std::string, Weight> weights; ///< by FQN
    /// FQN of parameters that are one tensor, as torch_headroom.export notes them; none: the file does not say.
    std::optional<std::vector<std::vector<std::string>>> tied;
    std::map<std::string, std::string> types; ///< class names of modules by FQN, as torch_headroom.export notes them
    ZipArchive archive;

    /// The model was exported on the meta device: shapes, and no values.
    bool weightless() const;
};

/// Reads and checks a file; runs nothing. Errors (badInput): one sentence with the file, the place in it and what was
/// expected there.
Result<ExportedProgram> readExportedProgram(const std::filesystem::path& path);
Result<ExportedProgram> readExportedProgram(ZipArchive archive);

} // namespace headroom::exported
