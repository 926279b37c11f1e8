// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/try.h"
#include "core/model/demo_source.h"
#include "core/model/settings.h"
#include "core/model/source.h"

namespace headroom::demo {
namespace {

struct MlpArgs
{
    std::int64_t layers = 4;
    std::int64_t dim = 1024;
};

/// nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim)).
struct Sequential
{
    ModuleId id;
    Linear expand;
    Layer relu;
    Linear contract;

    Sequential(ModuleBuilder& builder, ModuleId parent, std::int64_t dim)
        : id(builder.child(parent, "mlp_block", "Sequential"))
        , expand(builder, id, "0", dim, 2 * dim)
        , relu(reluLayer(builder, id, "1", false))
        , contract(builder, id, "2", 2 * dim, dim)
    {
    }
    at::Tensor forward(const at::Tensor& x) { return callInOrder(x, expand, relu, contract); }
};

struct MlpBlock
{
    ModuleId id;
    Sequential block;

    MlpBlock(ModuleBuilder& builder, ModuleId parent, std::string_view name, std::int64_t dim)
        : id(builder.child(parent, name, "MLPBlock"))
        , block(builder, id, dim)
    {
    }
    at::Tensor forward(const at::Tensor& x) { return call(block, x); }
};

struct Mlp
{
    ModuleId id;
    std::vector<MlpBlock> blocks;

    Mlp(ModuleBuilder& builder, const MlpArgs& args)
        : id(builder.root("MLP"))
    {
        const ModuleId list = builder.child(id, "mlp_blocks", "ModuleList");
        for (std::int64_t index = 0; index < args.layers; ++index)
            blocks.emplace_back(builder, list, std::to_string(index), args.dim);
    }
    at::Tensor forward(const at::Tensor& input)
    {
        at::Tensor x = input;
        for (MlpBlock& block : blocks)
            x = call(block, x);
        return x;
    }
};

} // namespace

Result<std::unique_ptr<ModelSource>> openMlp(const ModelRequest& request)
{
    MlpArgs args;
    SettingsReader settings(request.settings, request.name);
    settings.integer("n_layers", args.layers, 1, 1024);
    settings.integer("dim", args.dim, 1, 65'536);
    RETURN_IF_ERROR(settings.finish());
    ASSIGN_OR_RETURN(const std::int64_t batch, chosenSize("--batch", request.batch, 8, mostSamples));
    constexpr std::int64_t longest = 65'536;
    ASSIGN_OR_RETURN(const std::int64_t sequence, chosenSize("--seq", request.sequence, 1024, longest));

    const auto tokens = static_cast<double>(batch) * static_cast<double>(sequence);
    const auto width = static_cast<double>(args.dim);
    const double estimate = static_cast<double>(args.layers) * width * (tokens * 5 * 4 + width * 4 * 20);
    RETURN_IF_ERROR(checkStepSize(request.name, estimate));

    ModuleBuilder builder(request.device, request.dtype.value_or(at::kFloat));
    Mlp model(builder, args);
    const at::Tensor input = randomInput(request, {batch, sequence, args.dim});
    return std::unique_ptr<ModelSource>(
        std::make_unique<DemoSource<Mlp>>(builder.take(), std::move(model), input, longest));
}

} // namespace headroom::demo
