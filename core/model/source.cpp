// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/source.h"

#include "core/base/try.h"
#include "core/model/zip_archive.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <unordered_set>

namespace headroom {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 11> dtypes{{
    {"float32", at::kFloat},
    {"float64", at::kDouble},
    {"float16", at::kHalf},
    {"bfloat16", at::kBFloat16},
    {"int64", at::kLong},
    {"int32", at::kInt},
    {"int16", at::kShort},
    {"int8", at::kChar},
    {"uint8", at::kByte},
    {"bool", at::kBool},
    {"complex64", at::kComplexFloat},
}};
constexpr std::int64_t largestSize = std::int64_t(1) << 40;

/// Parses a number of a shape; returns 0 for other texts.
std::int64_t size(std::string_view text)
{
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && rest == text.data() + text.size();
    return whole && value > 0 && value <= largestSize ? value : 0;
}

} // namespace

Result<InputShape> parseInputShape(std::string_view text)
{
    const auto refused = [&](const std::string& expected) {
        return badInput("--input " + std::string(text) + ": expected " + expected
                        + ", for example --input x=8x128 or --input x=8x128:int64");
    };
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string_view::npos)
        return refused("NAME=SHAPE");
    InputShape input{std::string(text.substr(0, equals)), {}, {}};
    std::string_view shape = text.substr(equals + 1);
    if (const std::size_t colon = shape.find(':'); colon != std::string_view::npos) {
        const std::string_view name = shape.substr(colon + 1);
        const auto* const known = std::ranges::find(dtypes, name, &std::pair<std::string_view, at::ScalarType>::first);
        if (known == dtypes.end())
            return refused("a dtype such as float32, bfloat16, float16 or int64 after the colon");
        input.dtype = known->second;
        shape = shape.substr(0, colon);
    }
    if (shape == "scalar")
        return input;
    while (true) {
        const std::size_t cross = shape.find('x');
        const std::int64_t next = size(shape.substr(0, cross));
        if (next == 0)
            return refused("whole numbers of at least 1, separated by x");
        input.sizes.push_back(next);
        if (cross == std::string_view::npos)
            return input;
        shape = shape.substr(cross + 1);
    }
}

std::string dtypeName(at::ScalarType dtype)
{
    const auto* const known = std::ranges::find(dtypes, dtype, &std::pair<std::string_view, at::ScalarType>::second);
    return known == dtypes.end() ? c10::toString(dtype) : std::string(known->first);
}

std::string shapeText(const std::vector<std::int64_t>& sizes)
{
    std::string text;
    for (const std::int64_t value : sizes)
        text += (text.empty() ? "" : "x") + std::to_string(value);
    return text.empty() ? "scalar" : text;
}

namespace {

struct Demo
{
    const char* name;
    Result<std::unique_ptr<ModelSource>> (*open)(const ModelRequest&);
};
constexpr std::array demos{
    Demo{"demo:mlp", demo::openMlp},
    Demo{"demo:resnet", demo::openResnet},
    Demo{"demo:transformer", demo::openTransformer},
};

/// Refuses a file of torch.save: Python objects and no code.
Result<std::unique_ptr<ModelSource>> refusePickledModel(const ModelRequest& request)
{
    return badInput(
        request.name
        + " was written by torch.save, and torch.save stores Python objects without code; save the model with "
          "torch.export.save or torch.jit.save, or record the training script");
}

/// A kind of model file, recognized by a record that other kinds do not have.
struct FileKind
{
    const char* title; ///< null: the kind is refused
    const char* record;
    Result<std::unique_ptr<ModelSource>> (*open)(const ModelRequest&);
};
constexpr std::array fileKinds{
    FileKind{"a torch.export archive (.pt2)", "models/model.json", openExportedProgram},
    FileKind{"a TorchScript file (.pt)", "constants.pkl", openTorchScript},
    FileKind{nullptr, "data.pkl", refusePickledModel},
};

Error unknownName(const std::string& name)
{
    std::string message = "unknown model '" + name + "'; known are ";
    for (const Demo& demo : demos)
        message += (&demo == &demos.front() ? "" : ", ") + std::string(demo.name);
    return badInput(std::move(message));
}

Error needlessInput(const std::string& name)
{
    return badInput("--input is for TorchScript files; " + name + " states all inputs");
}

Result<std::unique_ptr<ModelSource>> openFile(const ModelRequest& request)
{
    ASSIGN_OR_RETURN(const auto archive, ZipArchive::open(request.name));
    std::string expected;
    for (const FileKind& kind : fileKinds) {
        if (archive.contains(kind.record))
            return request.inputs.empty() || kind.open == openTorchScript ? kind.open(request)
                                                                          : needlessInput(request.name);
        if (kind.title)
            expected += (expected.empty() ? "" : " or ") + std::string(kind.title);
    }
    return badInput(request.name + " is not a model file that Headroom reads; expected " + expected);
}

} // namespace

std::vector<at::Tensor> trainableParameters(const ModelTree& tree)
{
    std::vector<at::Tensor> parameters;
    std::unordered_set<const c10::TensorImpl*> seen;
    for (const ModelTree::Registered& registered : tree.registered) {
        const at::Tensor& tensor = registered.tensor;
        if (registered.category == Category::parameter && tensor.requires_grad()
            && seen.insert(tensor.unsafeGetTensorImpl()).second)
            parameters.push_back(tensor);
    }
    return parameters;
}

Result<std::unique_ptr<ModelSource>> openModel(const ModelRequest& request)
{
    for (const Demo& demo : demos) {
        if (request.name != demo.name)
            continue;
        if (request.lifetimes == Lifetimes::graph)
            return badInput("--lifetimes graph is for exported graphs; " + request.name + " runs as Python code does");
        return request.inputs.empty() ? demo.open(request) : needlessInput(request.name);
    }
    std::error_code ignored;
    const std::filesystem::path path(request.name);
    const bool named = !request.name.starts_with("demo:") && (path.has_extension() || path.has_parent_path());
    return named || std::filesystem::exists(path, ignored) ? openFile(request) : unknownName(request.name);
}

std::string firstLine(const c10::Error& error)
{
    const std::string message = error.what_without_backtrace();
    return message.substr(0, message.find('\n'));
}

bool saysOutOfMemory(std::string_view message)
{
    return message.find("can't allocate memory") != std::string_view::npos
        || message.find("bad_alloc") != std::string_view::npos;
}

std::vector<std::string> demoModels()
{
    std::vector<std::string> names;
    for (const Demo& demo : demos)
        names.emplace_back(demo.name);
    return names;
}

std::string_view lifetimesName(Lifetimes lifetimes)
{
    return lifetimes == Lifetimes::frame ? "frame" : "graph";
}

Result<Lifetimes> parseLifetimes(std::string_view name)
{
    for (const Lifetimes lifetimes : {Lifetimes::frame, Lifetimes::graph})
        if (name == lifetimesName(lifetimes))
            return lifetimes;
    return badInput("unknown lifetimes '" + std::string(name) + "'; known are frame and graph");
}

Result<at::ScalarType> parseDType(std::string_view name)
{
    if (name == "float32")
        return at::kFloat;
    if (name == "bfloat16")
        return at::kBFloat16;
    if (name == "float16")
        return at::kHalf;
    return badInput("unknown dtype '" + std::string(name) + "'; known are float32, bfloat16, float16");
}

} // namespace headroom
