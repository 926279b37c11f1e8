// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/try.h"
#include "core/model/demo_source.h"
#include "core/model/settings.h"
#include "core/model/source.h"

#include <ATen/ops/flatten.h>

#include <array>

// torchvision.models.resnet. The modules are in order of assignment; a block calls the single ReLU module repeatedly.
namespace headroom::demo {
namespace {

struct ResnetArgs
{
    std::int64_t depth = 18;
    std::int64_t classes = 1000;
    std::int64_t imageSize = 224;
};

/// Channels of a block: the 3 x 3 convolutions have `out`, and the result has out * expansion.
struct BlockShape
{
    std::int64_t in;
    std::int64_t out;
    std::int64_t stride;
    std::int64_t expansion;
    bool resamples() const { return stride != 1 || in != out * expansion; }
};

/// nn.Sequential(conv1x1, BatchNorm2d). The module converts the input to the size of the result.
struct Downsample
{
    ModuleId id;
    Conv2d conv;
    BatchNorm2d norm;

    Downsample(ModuleBuilder& builder, ModuleId parent, const BlockShape& shape)
        : id(builder.child(parent, "downsample", "Sequential"))
        , conv(builder, id, "0",
               {.in = shape.in, .out = shape.out * shape.expansion, .kernel = 1, .stride = shape.stride})
        , norm(builder, id, "1", shape.out * shape.expansion)
    {
    }
    at::Tensor forward(const at::Tensor& x) { return callInOrder(x, conv, norm); }
};

/// torchvision's Bottleneck, or BasicBlock if the expansion is 1.
struct Block
{
    ModuleId id;
    std::vector<Conv2d> convs;
    std::vector<BatchNorm2d> norms;
    Layer relu;
    std::optional<Downsample> downsample;

    Block(ModuleBuilder& builder, ModuleId parent, std::string_view name, const BlockShape& shape)
        : id(builder.child(parent, name, shape.expansion == 1 ? "BasicBlock" : "Bottleneck"))
    {
        const auto add = [&](const Conv2d::Shape& conv) {
            const std::string number = std::to_string(convs.size() + 1);
            convs.emplace_back(builder, id, "conv" + number, conv);
            norms.emplace_back(builder, id, "bn" + number, conv.out);
        };
        if (shape.expansion == 1) {
            add({.in = shape.in, .out = shape.out, .kernel = 3, .stride = shape.stride, .padding = 1});
            relu = reluLayer(builder, id, "relu", true);
            add({.in = shape.out, .out = shape.out, .kernel = 3, .padding = 1});
        } else {
            add({.in = shape.in, .out = shape.out, .kernel = 1});
            add({.in = shape.out, .out = shape.out, .kernel = 3, .stride = shape.stride, .padding = 1});
            add({.in = shape.out, .out = shape.out * shape.expansion, .kernel = 1});
            relu = reluLayer(builder, id, "relu", true);
        }
        if (shape.resamples())
            downsample.emplace(builder, id, shape);
    }
    at::Tensor forward(const at::Tensor& x)
    {
        at::Tensor identity = x;
        at::Tensor out = x;
        for (std::size_t i = 0; i < convs.size(); ++i) {
            out = call(convs[i], out);
            out = call(norms[i], out);
            if (i + 1 < convs.size())
                out = call(relu, out);
        }
        if (downsample)
            identity = call(*downsample, x);
        out += identity;
        out = call(relu, out);
        return out;
    }
};

/// nn.Sequential of blocks: layer1 to layer4.
struct Stage
{
    ModuleId id;
    std::vector<Block> blocks;

    Stage(ModuleBuilder& builder, ModuleId parent, int number, std::int64_t count, std::int64_t expansion)
        : id(builder.child(parent, "layer" + std::to_string(number), "Sequential"))
    {
        const std::int64_t channels = std::int64_t{64} << (number - 1);
        BlockShape shape{.in = number == 1 ? 64 : channels / 2 * expansion,
                         .out = channels,
                         .stride = number == 1 ? 1 : 2,
                         .expansion = expansion};
        for (std::int64_t index = 0; index < count; ++index) {
            blocks.emplace_back(builder, id, std::to_string(index), shape);
            shape.in = channels * expansion;
            shape.stride = 1;
        }
    }
    at::Tensor forward(const at::Tensor& x)
    {
        at::Tensor input = x;
        for (Block& block : blocks)
            input = call(block, input);
        return input;
    }
};

struct Resnet
{
    ModuleId id;
    Conv2d conv1;
    BatchNorm2d bn1;
    Layer relu;
    Layer maxpool;
    Stage layer1, layer2, layer3, layer4;
    Layer avgpool;
    Linear fc;

    Resnet(ModuleBuilder& builder, const std::array<std::int64_t, 4>& blocks, std::int64_t expansion,
           std::int64_t classes)
        : id(builder.root("ResNet"))
        , conv1(builder, id, "conv1", {.in = 3, .out = 64, .kernel = 7, .stride = 2, .padding = 3})
        , bn1(builder, id, "bn1", 64)
        , relu(reluLayer(builder, id, "relu", true))
        , maxpool(maxPoolLayer(builder, id, "maxpool"))
        , layer1(builder, id, 1, blocks[0], expansion)
        , layer2(builder, id, 2, blocks[1], expansion)
        , layer3(builder, id, 3, blocks[2], expansion)
        , layer4(builder, id, 4, blocks[3], expansion)
        , avgpool(averagePoolLayer(builder, id, "avgpool"))
        , fc(builder, id, "fc", 512 * expansion, classes)
    {
    }
    at::Tensor forward(const at::Tensor& images)
    {
        at::Tensor x = callInOrder(images, conv1, bn1, relu, maxpool, layer1, layer2, layer3, layer4, avgpool);
        x = at::flatten(x, 1);
        x = call(fc, x);
        return x;
    }
};

} // namespace

Result<std::unique_ptr<ModelSource>> openResnet(const ModelRequest& request)
{
    ResnetArgs args;
    SettingsReader settings(request.settings, request.name);
    settings.oneOf("depth", args.depth, std::array<std::int64_t, 3>{18, 34, 50});
    settings.integer("num_classes", args.classes, 1, 1'048'576);
    settings.integer("image_size", args.imageSize, 1, 8192);
    RETURN_IF_ERROR(settings.finish());
    if (request.sequence != 0)
        return badInput("--seq: " + request.name + " has images, not sequences; leave --seq out");
    ASSIGN_OR_RETURN(const std::int64_t batch, chosenSize("--batch", request.batch, 8, mostSamples));
    using Blocks = std::array<std::int64_t, 4>;
    ModuleBuilder builder(request.device, request.dtype.value_or(at::kFloat));
    Resnet model(builder, args.depth == 18 ? Blocks{2, 2, 2, 2} : Blocks{3, 4, 6, 3}, args.depth == 50 ? 4 : 1,
                 args.classes);
    const at::Tensor images = randomInput(request, {batch, 3, args.imageSize, args.imageSize});
    return std::unique_ptr<ModelSource>(
        std::make_unique<DemoSource<Resnet>>(builder.take(), std::move(model), images, 0));
}

} // namespace headroom::demo
