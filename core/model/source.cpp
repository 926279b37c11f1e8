// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/source.h"

#include "core/model/demo.h"

#include <array>
#include <unordered_set>

namespace headroom {
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
    for (const Demo& demo : demos)
        if (request.name == demo.name)
            return demo.open(request);
    std::string message = "unknown model '" + request.name + "'; known are ";
    for (const Demo& demo : demos)
        message += (&demo == &demos.front() ? "" : ", ") + std::string(demo.name);
    return badInput(std::move(message));
}

std::vector<std::string> demoModels()
{
    std::vector<std::string> names;
    for (const Demo& demo : demos)
        names.emplace_back(demo.name);
    return names;
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
