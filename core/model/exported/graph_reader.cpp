// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/exported/exported_program.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <limits>

namespace headroom::exported {
namespace {

using json::at;
using json::atOr;
using json::Json;
using json::listOf;
using json::mapOf;

/// Limit of the depth of graphs inside graphs, as arguments of nodes. Exported models have only a few levels.
constexpr int deepestGraph = 32;

Argument readArgumentAt(const Json& value, int depth);
Graph readGraphAt(const Json& value, int depth);

/// schema.py's numbers up to BFLOAT16 are the numbers of c10 plus 1.
at::ScalarType readScalarType(const Json& value)
{
    constexpr std::int64_t bfloat16 = 13;
    const std::int64_t number = json::integer(value);
    if (number >= 1 && number <= bfloat16) {
        constexpr std::array types{at::kByte,          at::kChar,  at::kShort,   at::kInt,         at::kLong,
                                   at::kHalf,          at::kFloat, at::kDouble,  at::kComplexHalf, at::kComplexFloat,
                                   at::kComplexDouble, at::kBool,  at::kBFloat16};
        return types[static_cast<std::size_t>(number - 1)];
    }
    constexpr std::int64_t uint16 = 28;
    constexpr std::array later{at::kUInt16, at::kFloat8_e4m3fn, at::kFloat8_e5m2, at::kFloat8_e4m3fnuz,
                               at::kFloat8_e5m2fnuz};
    if (number >= uint16 && number < uint16 + static_cast<std::int64_t>(later.size()))
        return later[static_cast<std::size_t>(number - uint16)];
    json::expected(value, "the number of an element type");
}

std::int64_t readLayout(const Json& value)
{
    constexpr std::int64_t strided = 7;
    if (json::integer(value) != strided)
        json::expected(value, "a strided layout (7): sparse and packed tensors cannot be recorded");
    return static_cast<std::int64_t>(at::kStrided);
}

std::int64_t readMemoryFormat(const Json& value)
{
    constexpr std::array formats{at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast,
                                 at::MemoryFormat::ChannelsLast3d, at::MemoryFormat::Preserve};
    const std::int64_t number = json::integer(value);
    if (number < 1 || number > static_cast<std::int64_t>(formats.size()))
        json::expected(value, "the number of a memory format, 1 to 4");
    return static_cast<std::int64_t>(formats[static_cast<std::size_t>(number - 1)]);
}

at::Device readDevice(const Json& value)
{
    const std::string type = at(value, "type", json::string);
    constexpr std::array known{at::kCPU, at::kCUDA, at::kMeta, at::kXPU, at::kMPS};
    const auto found = std::ranges::find(known, type, [](at::DeviceType one) { return at::DeviceTypeName(one, true); });
    if (found == known.end())
        json::expected(value["type"], "a device of PyTorch: cpu, cuda, meta, xpu or mps");
    return at::Device(*found);
}

/// Reads a number, or "Infinity", "-Infinity" and "NaN" as torch.export writes them.
double readNumber(const Json& value)
{
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (value == "Infinity")
        return infinity;
    if (value == "-Infinity")
        return -infinity;
    return value == "NaN" ? std::numeric_limits<double>::quiet_NaN() : json::number(value);
}

c10::complex<double> readComplex(const Json& value)
{
    return {at(value, "real", readNumber), at(value, "imag", readNumber)};
}

std::string readName(const Json& value)
{
    return at(value, "name", json::string);
}

Argument named(std::string name)
{
    Argument argument;
    argument.kind = Argument::ArgumentType::value;
    argument.elements.push_back({std::move(name), {}});
    return argument;
}

Argument constant(c10::IValue value)
{
    Argument argument;
    argument.constant = std::move(value);
    return argument;
}

Argument list(std::vector<Argument::Element> elements)
{
    Argument argument;
    argument.kind = Argument::ArgumentType::list;
    argument.elements = std::move(elements);
    return argument;
}

/// SymIntArgument, SymFloatArgument, SymBoolArgument, OptionalTensorArgument: a name or a constant.
Argument::Element readElement(const Json& value)
{
    const auto [key, content] = alternative(value);
    if (key == "as_name")
        return {at(value, "as_name", json::string), {}};
    if (key == "as_tensor")
        return {at(value, "as_tensor", readName), {}};
    if (key == "as_none")
        return {};
    if (key == "as_int")
        return {"", at(value, "as_int", json::integer)};
    if (key == "as_float")
        return {"", at(value, "as_float", readNumber)};
    if (key == "as_bool")
        return {"", at(value, "as_bool", json::boolean)};
    json::wrong(value, "has '" + key + "': expected a name or a number");
}

Argument readOne(const Json& value)
{
    const Argument::Element element = readElement(value);
    return element.name.empty() ? constant(element.constant) : named(element.name);
}

template <class Value>
c10::IValue ivalueOf(std::vector<Value> values)
{
    c10::List<Value> filled;
    filled.reserve(values.size());
    for (const Value& value : values)
        filled.push_back(value);
    return filled;
}

/// A reader of each alternative of schema.py's Argument.
const std::map<std::string, std::function<Argument(const Json&)>>& alternatives()
{
    static const auto names = [](const Json& value) {
        std::vector<Argument::Element> elements;
        for (std::string& name : listOf(readName)(value))
            elements.push_back({std::move(name), {}});
        return list(std::move(elements));
    };
    static const auto mixed = [](const Json& value) { return list(listOf(readElement)(value)); };
    static const std::map<std::string, std::function<Argument(const Json&)>> table{
        {"as_none", [](const Json&) { return constant({}); }},
        {"as_tensor", readNamed},
        {"as_tensors", names},
        {"as_optional_tensor", readOne},
        {"as_optional_tensors", mixed},
        {"as_sym_int", readOne},
        {"as_sym_float", readOne},
        {"as_sym_bool", readOne},
        {"as_sym_ints", mixed},
        {"as_sym_floats", mixed},
        {"as_sym_bools", mixed},
        {"as_int", [](const Json& value) { return constant(json::integer(value)); }},
        {"as_float", [](const Json& value) { return constant(readNumber(value)); }},
        {"as_bool", [](const Json& value) { return constant(json::boolean(value)); }},
        {"as_string", [](const Json& value) { return constant(json::string(value)); }},
        {"as_complex", [](const Json& value) { return constant(readComplex(value)); }},
        {"as_ints", [](const Json& value) { return constant(ivalueOf(listOf(json::integer)(value))); }},
        {"as_floats", [](const Json& value) { return constant(ivalueOf(listOf(readNumber)(value))); }},
        {"as_bools",
         [](const Json& value) {
             c10::List<bool> filled;
             for (const bool one : listOf(json::boolean)(value))
                 filled.push_back(one);
             return constant(filled);
         }},
        {"as_strings", [](const Json& value) { return constant(ivalueOf(listOf(json::string)(value))); }},
        {"as_scalar_type",
         [](const Json& value) { return constant(static_cast<std::int64_t>(readScalarType(value))); }},
        {"as_memory_format", [](const Json& value) { return constant(readMemoryFormat(value)); }},
        {"as_layout", [](const Json& value) { return constant(readLayout(value)); }},
        {"as_device", [](const Json& value) { return constant(readDevice(value)); }},
    };
    return table;
}

Argument readArgumentAt(const Json& value, int depth)
{
    const std::string key = alternative(value).first;
    if (key == "as_graph") {
        Argument argument;
        argument.kind = Argument::ArgumentType::graph;
        argument.graph = at(value, "as_graph", [depth](const Json& content) {
            return at(content, "graph", [depth](const Json& graph) {
                return std::make_shared<const Graph>(readGraphAt(graph, depth + 1));
            });
        });
        return argument;
    }
    const auto reader = alternatives().find(key);
    if (reader
        == alternatives().end()) // [[name, …], …] has no operator in a training graph; neither have script objects
        json::wrong(value, "has '" + key + "': expected an argument that Headroom knows");
    return at(value, key.c_str(), reader->second);
}

/// "key,fqn,type;key,fqn,type": neither keys nor names of Python have a comma or a semicolon, but a key may be source
/// text such as L['self'], and a type may hold commas.
std::vector<Node::Frame> readFrames(const Json& value)
{
    const std::string text = json::string(value);
    std::vector<Node::Frame> frames;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(';', begin), text.size());
        const std::string entry = text.substr(begin, end - begin);
        const std::size_t first = entry.find(',');
        const std::size_t second = entry.find(',', first + 1);
        if (first == std::string::npos || second == std::string::npos)
            json::expected(value, "entries of the form call,name,type");
        Node::Frame frame{entry.substr(0, first), entry.substr(first + 1, second - first - 1),
                          entry.substr(second + 1)};
        // Nodes that exporting added have the same text in all three places.
        if (frame.call != frame.fqn || frame.call != frame.type) {
            const std::size_t dot = frame.type.rfind('.');
            frame.type = dot == std::string::npos ? frame.type : frame.type.substr(dot + 1);
            frames.push_back(std::move(frame));
        }
        begin = end + 1;
    }
    return frames;
}

/// Reads the lines `File "models/gpt.py", line 31, in forward` of a stack trace. The lines between are source text.
std::vector<Node::Line> readLines(const Json& value)
{
    constexpr std::string_view file = "File \"";
    constexpr std::string_view line = "\", line ";
    constexpr std::string_view in = ", in ";
    const std::string trace = json::string(value);
    std::vector<Node::Line> lines;
    for (std::size_t begin = 0; begin < trace.size();) {
        const std::size_t end = std::min(trace.find('\n', begin), trace.size());
        std::string_view text = std::string_view(trace).substr(begin, end - begin);
        begin = end + 1;
        text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
        const std::size_t path = text.find(line);
        if (!text.starts_with(file) || path == std::string_view::npos)
            continue;
        const std::string_view number = text.substr(path + line.size());
        Node::Line found{std::string(text.substr(file.size(), path - file.size())), 0, {}};
        const auto [rest, error] = std::from_chars(number.data(), number.data() + number.size(), found.line);
        const std::string_view behind(rest, static_cast<std::size_t>(number.data() + number.size() - rest));
        if (error != std::errc())
            continue;
        if (behind.starts_with(in))
            found.function = behind.substr(in.size());
        lines.push_back(std::move(found));
    }
    return lines;
}

Node readNode(const Json& value, int depth)
{
    Node node;
    node.target = at(value, "target", json::string);
    node.inputs = at(value, "inputs", listOf([depth](const Json& input) {
                         return std::pair(atOr(input, "name", json::string, std::string()),
                                          at(input, "arg", [depth](const Json& argument) {
                                              return readArgumentAt(argument, depth);
                                          }));
                     }));
    node.outputs = at(value, "outputs", listOf(readArgument));
    if (const Json* metadata = json::find(value, "metadata")) {
        node.frames = atOr(*metadata, "nn_module_stack", readFrames, std::vector<Node::Frame>());
        node.lines = atOr(*metadata, "stack_trace", readLines, std::vector<Node::Line>());
    }
    return node;
}

Graph readGraphAt(const Json& value, int depth)
{
    if (depth > deepestGraph)
        json::expected(value, "graphs nested at most " + std::to_string(deepestGraph) + " deep");
    Graph graph;
    graph.inputs = at(value, "inputs", listOf(readArgument));
    graph.outputs = at(value, "outputs", listOf(readArgument));
    graph.nodes = at(value, "nodes", listOf([depth](const Json& node) { return readNode(node, depth); }));
    graph.tensors = at(value, "tensor_values", mapOf(readTensorMeta));
    graph.numbers = at(value, "sym_int_values", mapOf(readSize));
    return graph;
}

} // namespace

std::pair<const std::string&, const Json&> alternative(const Json& value)
{
    if (!value.is_object() || value.size() != 1)
        json::expected(value, "an object with a single member");
    const auto member = value.begin();
    return {member.key(), member.value()};
}

Size readSize(const Json& value)
{
    const auto [key, content] = alternative(value);
    if (key == "as_int")
        return {at(value, "as_int", json::integer), ""};
    if (key != "as_expr")
        json::wrong(value, "has '" + key + "': expected a size, as_int or as_expr");
    return at(value, "as_expr", [](const Json& expression) {
        Size size;
        size.expression = at(expression, "expr_str", json::string);
        size.number = atOr(
            expression, "hint", [](const Json& hint) { return atOr(hint, "as_int", json::integer, std::int64_t{0}); },
            std::int64_t{0});
        return size;
    });
}

TensorMeta readTensorMeta(const Json& value)
{
    TensorMeta meta;
    meta.dtype = at(value, "dtype", readScalarType);
    meta.device = at(value, "device", readDevice).type();
    meta.sizes = at(value, "sizes", listOf(readSize));
    meta.strides = at(value, "strides", listOf(readSize));
    meta.offset = at(value, "storage_offset", readSize);
    meta.requiresGrad = at(value, "requires_grad", json::boolean);
    at(value, "layout", readLayout);
    if (meta.sizes.size() != meta.strides.size())
        json::wrong(value, "strides", "has another length than sizes: expected a stride for each size");
    return meta;
}

Argument readNamed(const Json& value)
{
    return named(readName(value));
}

Argument readArgument(const Json& value)
{
    return readArgumentAt(value, 0);
}

Graph readGraph(const Json& value)
{
    return readGraphAt(value, 0);
}

} // namespace headroom::exported
