// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/base/json_reader.h"
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

/// The contents of a .pt2 file, by torch/_export/serde/schema.py.
namespace headroom::exported {

/// A size: a number, or an expression of dynamic dimensions, printed by sympy ("Symbol('s10', …)").
struct Size
{
    std::int64_t number = 0; ///< the size, or the value of the expression at export (the hint), 0 if unknown
    std::string expression; ///< empty: the size is a number
};

/// Shape and type of a tensor.
struct TensorMeta
{
    at::ScalarType dtype = at::kFloat;
    at::DeviceType device = at::kCPU; ///< the device of the export
    std::vector<Size> sizes;
    std::vector<Size> strides;
    Size offset; ///< in elements, into the storage
    bool requiresGrad = false;
};

struct Graph;

/// An argument of a node, or a result: a constant, a value by name, a list that mixes both, or a graph.
struct Argument
{
    /// An element of a list. `name` is empty for a constant.
    struct Element
    {
        std::string name;
        c10::IValue constant;
    };
    enum class ArgumentType {
        constant,
        value, ///< the single entry of `elements`
        list,
        graph
    };
    ArgumentType kind = ArgumentType::constant;
    c10::IValue constant; ///< may be None
    std::vector<Element> elements;
    std::shared_ptr<const Graph> graph;
};

/// One line of a forward: a call of an operator, or arithmetic of sizes.
struct Node
{
    /// The module call of a node.
    struct Frame
    {
        std::string call; ///< identifies the call: "L__self__lin@1"
        std::string fqn; ///< "" for the root
        std::string type; ///< class name without the Python module
    };
    /// A line of source code that ran the node.
    struct Line
    {
        std::string file; ///< as the export knew the path: "models/gpt.py"
        std::uint32_t line = 0; ///< from 1
        std::string function;
    };
    std::string target; ///< "torch.ops.aten.linear.default", "_operator.add"
    std::vector<std::pair<std::string, Argument>> inputs; ///< by name of the operator's argument
    std::vector<Argument> outputs;
    std::vector<Frame> frames; ///< outermost first; empty: the export created the node
    std::vector<Line> lines; ///< outermost first; empty: not known
};

struct Graph
{
    std::vector<Argument> inputs;
    std::vector<Argument> outputs;
    std::vector<Node> nodes;
    std::map<std::string, TensorMeta> tensors; ///< by name of the value
    std::map<std::string, Size> numbers; ///< by name of the value
};

/// An input of the root graph.
struct InputSpec
{
    enum class InputKind { user, parameter, buffer, constantTensor, constant };
    InputKind kind = InputKind::user;
    Argument argument;
    std::string name; ///< FQN of the parameter, buffer or constant
};

/// An output of the root graph.
struct OutputSpec
{
    enum class OutputKind {
        result,
        mutation, ///< the new value of a parameter, buffer or input
    };
    OutputKind kind = OutputKind::result;
    Argument argument;
    std::string target; ///< mutations only: FQN of the parameter or buffer, or name of the input
};

/// A tensor of the file: parameter, buffer or constant.
struct Weight
{
    TensorMeta meta;
    std::string record; ///< name in the archive; tensors that share a storage share a record
    std::size_t bytes = 0; ///< size of the record; 0 if the model was exported without weights
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
    std::string torchVersion; ///< version that exported the model
    Graph graph;
    std::vector<InputSpec> inputs; ///< in the order of graph.inputs
    std::vector<OutputSpec> outputs;
    std::vector<std::string> modules; ///< FQN of all modules, in the order of model.named_modules(); "" is the root
    std::map<std::string, Range> ranges; ///< by symbol
    std::map<std::string, Weight> weights; ///< by FQN
    /// Groups of FQNs of the same parameter, noted by torch_headroom.export; nullopt: not in the file.
    std::optional<std::vector<std::vector<std::string>>> tied;
    std::map<std::string, std::string> types; ///< class names of modules by FQN, noted by torch_headroom.export
    ZipArchive archive;

    /// Returns whether the model was exported on the meta device, with shapes but no values.
    bool weightless() const;
    /// Returns the shape of an input that the caller gives as a tensor; null for other inputs.
    const TensorMeta* tensorOf(const InputSpec& input) const;
};

/// Reads and checks a file; nothing in it is run. Errors (badInput) name the file, the place in it and what was
/// expected there.
Result<ExportedProgram> readExportedProgram(const std::filesystem::path& path);
Result<ExportedProgram> readExportedProgram(ZipArchive archive);

// Schema.py's types as the types above. All functions throw json::Mismatch.

/// Returns the only member of `value`: a union of schema.py is an object; the key is the name of the alternative.
std::pair<const std::string&, const json::Json&> alternative(const json::Json& value);

Size readSize(const json::Json& value);
TensorMeta readTensorMeta(const json::Json& value);
Argument readArgument(const json::Json& value);
Argument readNamed(const json::Json& value); ///< reads a value's name: TensorArgument
Graph readGraph(const json::Json& value);

/// The versions of packaging/dependencies/torch-versions.txt, for people: "torch OLDEST to NEWEST".
extern const char* const supportedTorch;

} // namespace headroom::exported
