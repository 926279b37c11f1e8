// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/try.h"
#include "core/model/exported/exported_program.h"

#include <algorithm>
#include <optional>

namespace headroom::exported {
namespace {

using json::at;
using json::atOr;
using json::Json;
using json::listOf;
using json::mapOf;

constexpr auto modelRecord = "models/model.json";
constexpr auto tiedRecord = "extra/headroom_tied_weights.json";
constexpr auto typesRecord = "extra/headroom_module_types.json";
constexpr std::int64_t schemaMajor = 8; ///< SCHEMA_VERSION of torch/_export/serde/schema.py

/// The exception for a fault of a record; readExportedProgram() returns the error.
struct Unreadable
{
    Error error;
};

template <class Read>
auto readRecord(const ZipArchive& archive, const std::string& record, Read read)
{
    const auto bytes = archive.record(record);
    if (!bytes)
        throw Unreadable{bytes.error()};
    auto content = json::read({reinterpret_cast<const char*>(bytes->data()), bytes->size()},
                              archive.name() + ": " + record, read);
    if (!content)
        throw Unreadable{content.error()};
    return *std::move(content);
}

void checkSchema(const Json& document, const ExportedProgram& program)
{
    const std::int64_t major
        = at(document, "schema_version", [](const Json& version) { return at(version, "major", json::integer); });
    if (major == schemaMajor)
        return;
    throw Unreadable{badInput(program.name + " has schema version " + std::to_string(major) + " of torch.export (torch "
                              + program.torchVersion + "), and Headroom reads version " + std::to_string(schemaMajor)
                              + "; export the model with " + supportedTorch)};
}

InputSpec readInputSpec(const Json& value)
{
    const auto [key, content] = alternative(value);
    const auto tensor = [&value, &name = key](const char* nameField, InputSpec::InputKind kind) {
        return at(value, name.c_str(), [&](const Json& spec) {
            InputSpec input;
            input.kind = kind;
            input.argument = at(spec, "arg", readNamed);
            input.name = at(spec, nameField, json::string);
            return input;
        });
    };
    if (key == "parameter")
        return tensor("parameter_name", InputSpec::InputKind::parameter);
    if (key == "buffer")
        return tensor("buffer_name", InputSpec::InputKind::buffer);
    if (key == "tensor_constant")
        return tensor("tensor_constant_name", InputSpec::InputKind::constantTensor);
    InputSpec input;
    if (key == "user_input") {
        input.argument = at(value, "user_input", [](const Json& spec) { return at(spec, "arg", readArgument); });
        return input;
    }
    if (key == "constant_input") {
        input.kind = InputSpec::InputKind::constant;
        input.name = at(value, "constant_input", [](const Json& spec) { return at(spec, "name", json::string); });
        return input;
    }
    json::wrong(value, "has '" + key + "': expected an input that Headroom knows");
}

OutputSpec readOutputSpec(const Json& value)
{
    const auto [key, content] = alternative(value);
    OutputSpec output;
    if (key == "user_output") {
        output.argument = at(value, "user_output", [](const Json& spec) { return at(spec, "arg", readArgument); });
        return output;
    }
    const char* target = key == "buffer_mutation" ? "buffer_name"
        : key == "parameter_mutation"             ? "parameter_name"
        : key == "user_input_mutation"            ? "user_input_name"
                                                  : nullptr;
    if (key != "loss_output" && !target)
        json::wrong(value, "has '" + key + "': expected an output that Headroom knows");
    return at(value, key.c_str(), [&](const Json& spec) {
        output.argument = at(spec, "arg", readNamed);
        if (target) {
            output.kind = OutputSpec::OutputKind::mutation;
            output.target = at(spec, target, json::string);
        }
        return output;
    });
}

Range readRange(const Json& value)
{
    Range range;
    if (json::find(value, "min_val"))
        range.least = at(value, "min_val", json::integer);
    if (json::find(value, "max_val"))
        range.most = at(value, "max_val", json::integer);
    return range;
}

void readModel(const Json& document, ExportedProgram& program)
{
    program.torchVersion = atOr(document, "torch_version", json::string, std::string("of unknown version"));
    checkSchema(document, program);
    at(document, "graph_module", [&](const Json& module) {
        program.graph = at(module, "graph", readGraph);
        at(module, "signature", [&](const Json& signature) {
            program.inputs = at(signature, "input_specs", listOf(readInputSpec));
            program.outputs = at(signature, "output_specs", listOf(readOutputSpec));
            return true;
        });
        program.modules
            = at(module, "module_call_graph", listOf([](const Json& call) { return at(call, "fqn", json::string); }));
        return true;
    });
    program.ranges = at(document, "range_constraints", mapOf(readRange));
}

/// Returns the bytes that a tensor's storage needs by its sizes and strides; nullopt if they are not numbers, or if the
/// tensor has 2^56 elements.
std::optional<std::size_t> neededBytes(const TensorMeta& meta)
{
    constexpr std::int64_t most = std::int64_t{1} << 56;
    const auto plain = [](const Size& size) { return size.expression.empty() ? size.number : -1; };
    std::int64_t last = plain(meta.offset);
    if (last < 0 || last > most)
        return std::nullopt;
    bool empty = false;
    for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
        const std::int64_t size = plain(meta.sizes[i]);
        const std::int64_t stride = plain(meta.strides[i]);
        empty = empty || size == 0;
        if (size < 0 || stride < 0 || (size > 1 && (stride > most / size || last > most - (size - 1) * stride)))
            return std::nullopt;
        last += size > 1 ? (size - 1) * stride : 0;
    }
    return empty ? 0 : (static_cast<std::size_t>(last) + 1) * c10::elementSize(meta.dtype);
}

/// A config of tensors: {"config": {FQN: {"path_name", "use_pickle", "tensor_meta"}}}.
std::map<std::string, Weight> readWeights(const Json& document, const ZipArchive& archive, const std::string& folder)
{
    const auto readWeight = [&](const Json& value) {
        Weight weight;
        weight.record = folder + at(value, "path_name", json::string);
        if (at(value, "use_pickle", json::boolean))
            json::expected(value["use_pickle"],
                           "a plain tensor; tensor subclasses and script objects are pickled, and Headroom does not "
                           "read those");
        weight.meta = at(value, "tensor_meta", readTensorMeta);
        const auto bytes = archive.record(weight.record);
        if (!bytes)
            throw Unreadable{bytes.error()};
        weight.bytes = bytes->size();
        const auto needed = neededBytes(weight.meta);
        if (!needed)
            json::expected(value["tensor_meta"], "sizes that are numbers, of less than 2^56 elements");
        if (weight.bytes != 0 && weight.bytes < *needed)
            json::wrong(value, "tensor_meta",
                        "needs " + std::to_string(*needed) + " bytes, but " + weight.record + " has "
                            + std::to_string(weight.bytes));
        return weight;
    };
    return at(document, "config", mapOf(readWeight));
}

void checkInputs(const ExportedProgram& program)
{
    const auto wrong
        = [&](const std::string& what) { throw Unreadable{badInput(program.name + ": " + modelRecord + ": " + what)}; };
    if (program.inputs.size() != program.graph.inputs.size())
        wrong("the signature has " + std::to_string(program.inputs.size()) + " inputs and the graph "
              + std::to_string(program.graph.inputs.size()) + "; expected as many");
    for (const InputSpec& input : program.inputs) {
        const bool stored = input.kind != InputSpec::InputKind::user && input.kind != InputSpec::InputKind::constant;
        if (stored && !program.weights.contains(input.name))
            wrong("'" + input.name
                  + "' is an input of the graph; expected a tensor of that name among the file's weights or constants");
        if (input.argument.kind == Argument::ArgumentType::value && !input.argument.elements.empty()
            && input.kind == InputSpec::InputKind::user
            && !program.graph.tensors.contains(input.argument.elements[0].name)
            && !program.graph.numbers.contains(input.argument.elements[0].name))
            wrong("input '" + input.argument.elements[0].name + "' has no shape; expected a shape among tensor_values");
    }
}

ExportedProgram readAll(ZipArchive archive)
{
    ExportedProgram program;
    program.name = archive.name();
    readRecord(archive, modelRecord, [&](const Json& document) {
        readModel(document, program);
        return true;
    });
    for (const auto& [folder, config] : {std::pair("data/weights/", "data/weights/model_weights_config.json"),
                                         std::pair("data/constants/", "data/constants/model_constants_config.json")}) {
        auto weights = readRecord(
            archive, config, [&, &in = folder](const Json& document) { return readWeights(document, archive, in); });
        program.weights.merge(weights);
    }
    if (archive.contains(tiedRecord))
        program.tied = readRecord(archive, tiedRecord, listOf(listOf(json::string)));
    if (archive.contains(typesRecord))
        program.types = readRecord(archive, typesRecord, mapOf(json::string));
    checkInputs(program);
    program.archive = std::move(archive);
    return program;
}

} // namespace

bool ExportedProgram::weightless() const
{
    return std::ranges::any_of(weights, [](const auto& entry) {
        return entry.second.bytes == 0 && neededBytes(entry.second.meta).value_or(0) != 0;
    });
}

const TensorMeta* ExportedProgram::tensorOf(const InputSpec& input) const
{
    if (input.kind != InputSpec::InputKind::user || input.argument.kind != Argument::ArgumentType::value)
        return nullptr;
    const auto found = graph.tensors.find(input.argument.elements.front().name);
    return found == graph.tensors.end() ? nullptr : &found->second;
}

Result<ExportedProgram> readExportedProgram(const std::filesystem::path& path)
{
    ASSIGN_OR_RETURN(auto archive, ZipArchive::open(path));
    return readExportedProgram(std::move(archive));
}

Result<ExportedProgram> readExportedProgram(ZipArchive archive)
{
    try {
        return readAll(std::move(archive));
    } catch (const Unreadable& unreadable) {
        return unreadable.error;
    }
}

} // namespace headroom::exported
