// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/try.h"
#include "core/model/demo.h"
#include "core/model/demo_source.h"
#include "core/model/settings.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/flatten.h>
#include <ATen/ops/randn.h>

#include <array>

// torchvision.models.resnet: modules in its order of assignment, one ReLU module a block that is called several times.
namespace headroom::demo {
namespace {

struct ResnetArgs
{
    std::int64_t depth = 18;
    std::int64_t classes = 1000;
    std::int64_t imageSize = 224;
};

/// Channels of a block: `out` is what its convolutions of 3 x 3 have; the result has out * expansion.
struct BlockShape
{
    std::int64_t in;
    std::int64_t out;
    std::int64_t stride;
    std::int64_t expansion;
    bool resamples() const { return stride != 1 || in != out * expansion; }
};

/// nn.Sequential(conv1x1, BatchNorm2d): brings the input to the size of the result.
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
    at::Tensor forward(const at::Tensor& x)
    {
        at::Tensor input = x;
        input = call(conv, input);
        input = call(norm, input);
        return input;
    }
};

std::optional<Downsample> downsampleFor(ModuleBuilder& builder, ModuleId parent, const BlockShape& shape)
{
    return shape.resamples() ? std::optional<Downsample>(std::in_place, builder, parent, shape) : std::nullopt;
}

struct BasicBlock
{
    static constexpr const char* type = "BasicBlock";
    static constexpr std::int64_t expansion = 1;
    ModuleId id;
    Conv2d conv1;
    BatchNorm2d bn1;
    Relu relu;
    Conv2d conv2;
    BatchNorm2d bn2;
    std::optional<Downsample> downsample;

    BasicBlock(ModuleBuilder& builder, ModuleId parent, std::string_view name, const BlockShape& shape)
        : id(builder.child(parent, name, type))
        , conv1(builder, id, "conv1",
                {.in = shape.in, .out = shape.out, .kernel = 3, .stride = shape.stride, .padding = 1})
        , bn1(builder, id, "bn1", shape.out)
        , relu(builder, id, "relu", true)
        , conv2(builder, id, "conv2", {.in = shape.out, .out = shape.out, .kernel = 3, .padding = 1})
        , bn2(builder, id, "bn2", shape.out)
        , downsample(downsampleFor(builder, id, shape))
    {
    }
    at::Tensor forward(const at::Tensor& x)
    {
        at::Tensor identity = x;
        at::Tensor out = call(conv1, x);
        out = call(bn1, out);
        out = call(relu, out);
        out = call(conv2, out);
        out = call(bn2, out);
        if (downsample)
            identity = call(*downsample, x);
        out += identity;
        out = call(relu, out);
        return out;
    }
};

struct Bottleneck
{
    static constexpr const char* type = "Bottleneck";
    static constexpr std::int64_t expansion = 4;
    ModuleId id;
    Conv2d conv1;
    BatchNorm2d bn1;
    Conv2d conv2;
    BatchNorm2d bn2;
    Conv2d conv3;
    BatchNorm2d bn3;
    Relu relu;
    std::optional<Downsample> downsample;

    Bottleneck(ModuleBuilder& builder, ModuleId parent, std::string_view name, const BlockShape& shape)
        : id(builder.child(parent, name, type))
        , conv1(builder, id, "conv1", {.in = shape.in, .out = shape.out, .kernel = 1})
        , bn1(builder, id, "bn1", shape.out)
        , conv2(builder, id, "conv2",
                {.in = shape.out, .out = shape.out, .kernel = 3, .stride = shape.stride, .padding = 1})
        , bn2(builder, id, "bn2", shape.out)
        , conv3(builder, id, "conv3", {.in = shape.out, .out = shape.out * expansion, .kernel = 1})
        , bn3(builder, id, "bn3", shape.out * expansion)
        , relu(builder, id, "relu", true)
        , downsample(downsampleFor(builder, id, shape))
    {
    }
    at::Tensor forward(const at::Tensor& x)
    {
        at::Tensor identity = x;
        at::Tensor out = call(conv1, x);
        out = call(bn1, out);
        out = call(relu, out);
        out = call(conv2, out);
        out = call(bn2, out);
        out = call(relu, out);
        out = call(conv3, out);
        out = call(bn3, out);
        if (downsample)
            identity = call(*downsample, x);
        out += identity;
        out = call(relu, out);
        return out;
    }
};

/// nn.Sequential of blocks: layer1 .. layer4.
template <class Block>
struct Stage
{
    ModuleId id;
    std::vector<Block> blocks;

    Stage(ModuleBuilder& builder, ModuleId parent, int number, std::int64_t count)
        : id(builder.child(parent, "layer" + std::to_string(number), "Sequential"))
    {
        const std::int64_t channels = std::int64_t{64} << (number - 1);
        BlockShape shape{.in = number == 1 ? 64 : channels / 2 * Block::expansion,
                         .out = channels,
                         .stride = number == 1 ? 1 : 2,
                         .expansion = Block::expansion};
        for (std::int64_t index = 0; index < count; ++index) {
            blocks.emplace_back(builder, id, std::to_string(index), shape);
            shape.in = channels * Block::expansion;
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

template <class Block>
struct Resnet
{
    ModuleId id;
    Conv2d conv1;
    BatchNorm2d bn1;
    Relu relu;
    MaxPool2d maxpool;
    Stage<Block> layer1, layer2, layer3, layer4;
    AdaptiveAvgPool2d avgpool;
    Linear fc;

    Resnet(ModuleBuilder& builder, const std::array<std::int64_t, 4>& blocks, std::int64_t classes)
        : id(builder.root("ResNet"))
        , conv1(builder, id, "conv1", {.in = 3, .out = 64, .kernel = 7, .stride = 2, .padding = 3})
        , bn1(builder, id, "bn1", 64)
        , relu(builder, id, "relu", true)
        , maxpool(builder, id, "maxpool")
        , layer1(builder, id, 1, blocks[0])
        , layer2(builder, id, 2, blocks[1])
        , layer3(builder, id, 3, blocks[2])
        , layer4(builder, id, 4, blocks[3])
        , avgpool(builder, id, "avgpool")
        , fc(builder, id, "fc", 512 * Block::expansion, classes)
    {
    }
    at::Tensor forward(const at::Tensor& images)
    {
        at::Tensor x = call(conv1, images);
        x = call(bn1, x);
        x = call(relu, x);
        x = call(maxpool, x);
        x = call(layer1, x);
        x = call(layer2, x);
        x = call(layer3, x);
        x = call(layer4, x);
        x = call(avgpool, x);
        x = at::flatten(x, 1);
        x = call(fc, x);
        return x;
    }
};

template <class Block>
std::unique_ptr<ModelSource> build(const ModelRequest& request, const ResnetArgs& args,
                                   const std::array<std::int64_t, 4>& blocks, std::int64_t batch)
{
    ModuleBuilder builder(request.device, request.dtype.value_or(at::kFloat));
    Resnet<Block> model(builder, blocks, args.classes);
    const std::vector<std::int64_t> sizes{batch, 3, args.imageSize, args.imageSize};
    const at::Tensor images
        = computes(request.device) ? at::randn(sizes, builder.options()) : at::empty(sizes, builder.options());
    return std::make_unique<DemoSource<Resnet<Block>>>(
        typename DemoSource<Resnet<Block>>::Parts{builder.take(), std::move(model), images, batch, 0, 0});
}

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
        return badInput("--seq: " + request.name + " has images, not sequences; leave it out");
    ASSIGN_OR_RETURN(const std::int64_t batch, chosenSize("--batch", request.batch, 8, mostSamples));
    if (args.depth == 18)
        return build<BasicBlock>(request, args, {2, 2, 2, 2}, batch);
    if (args.depth == 34)
        return build<BasicBlock>(request, args, {3, 4, 6, 3}, batch);
    return build<Bottleneck>(request, args, {3, 4, 6, 3}, batch);
}

} // namespace headroom::demo
