// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/core/synthetic_step.h"

#include "tests/core/synthetic_tape.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace headroom {

namespace {

/// The made-up transformer, module by module.
class Maker
{
public:
    explicit Maker(const SyntheticOptions& options)
        : options_(options)
    {
    }

    StepTracePtr run()
    {
        makeModel();
        const StorageId batch = tape_.builder.alloc(options_.activation / 64, Category::input, {});
        tape_.builder.mark(Mark::stepBegin);
        for (int i = 0; i < options_.microBatches; ++i) {
            const StorageId loss = forward(batch);
            if (!options_.backwardInAutocast)
                leaveAutocast();
            tape_.builder.mark(Mark::forwardEnd);
            tape_.backward(loss);
            leaveAutocast();
            tape_.builder.mark(Mark::backwardEnd);
        }
        tape_.optimizerStep();
        tape_.builder.mark(Mark::stepEnd);
        tape_.zeroGrad();
        tape_.builder.mark(Mark::zeroGradEnd);

        auto result = tape_.builder.finish();
        if (!result) {
            std::fprintf(stderr, "makeSyntheticStep: %s\n", result.error().message.c_str());
            std::abort();
        }
        return *std::move(result);
    }

private:
    struct Linear
    {
        ModuleId self, base, dropout, a, b; ///< all but the first: invalid without adapters
        std::size_t weight = 0; ///< with adapters those of a and b follow
    };
    struct Norm
    {
        ModuleId self;
        std::size_t weight = 0;
    };
    struct Block
    {
        ModuleId self, attention, feedForward;
        Norm attentionNorm, ffnNorm;
        Linear wq, wo, w1, w2;
    };
    void makeModel()
    {
        tape_.builder.info.model = "synthetic";
        tape_.builder.info.gpu = "a100-80gb";
        tape_.builder.info.device = "sim";
        tape_.builder.info.torch = "2.11.0";
        tape_.builder.info.dtype = "float32";
        tape_.builder.info.optimizer = "adam";
        tape_.builder.info.batch = 8;
        tape_.builder.info.sequence = 128;
        const ModuleId models = options_.oneOfTwo ? tape_.builder.addModule("models", "Models", {}) : ModuleId();
        const std::string name = options_.oneOfTwo ? "models.Transformer" : "Transformer";
        tape_.root = tape_.builder.addModule(name, "Transformer", models);
        embedding_ = tape_.builder.addModule(name + ".tok_embeddings", "Embedding", tape_.root);
        embeddingWeight_ = tape_.addParameter(embedding_, "weight", 4 * options_.weight, !adapted());
        const ModuleId layers = tape_.builder.addModule(name + ".layers", "ModuleList", tape_.root);
        for (int i = 0; i < options_.blocks; ++i)
            makeBlock(name + ".layers." + std::to_string(i), layers);
        output_.self = tape_.builder.addModule(name + ".output", "Linear", tape_.root);
        output_.weight = tape_.addParameter(output_.self, "weight", 4 * options_.weight, !adapted());
        if (options_.oneOfTwo)
            tape_.builder.addModule("models.Critic", "Critic", models);
        tape_.addOptimizerStates();
    }

    bool adapted() const { return options_.adapter > 0; }

    void makeBlock(const std::string& fqn, ModuleId layers)
    {
        Block b;
        b.self = tape_.builder.addModule(fqn, "TransformerBlock", layers);
        b.attentionNorm = makeNorm(fqn + ".attention_norm", b.self);
        b.attention = tape_.builder.addModule(fqn + ".attention", "Attention", b.self);
        b.wq = makeLinear(fqn + ".attention.wq", b.attention, options_.weight);
        b.wo = makeLinear(fqn + ".attention.wo", b.attention, options_.weight);
        b.ffnNorm = makeNorm(fqn + ".ffn_norm", b.self);
        b.feedForward = tape_.builder.addModule(fqn + ".feed_forward", "FeedForward", b.self);
        b.w1 = makeLinear(fqn + ".feed_forward.w1", b.feedForward, 4 * options_.weight);
        b.w2 = makeLinear(fqn + ".feed_forward.w2", b.feedForward, 4 * options_.weight);
        blocks_.push_back(b);
    }

    Norm makeNorm(const std::string& fqn, ModuleId parent)
    {
        const ModuleId self = tape_.builder.addModule(fqn, "LayerNorm", parent);
        const Bytes vector = std::max<Bytes>(options_.weight / 1024, 4);
        return {self, tape_.addParameter(self, "weight", vector, !adapted())};
    }

    Linear makeLinear(const std::string& fqn, ModuleId parent, Bytes weight)
    {
        Linear linear;
        linear.self = tape_.builder.addModule(fqn, "Linear", parent);
        linear.base = adapted() ? tape_.builder.addModule(fqn + ".base_layer", "Linear", linear.self) : linear.self;
        linear.weight = tape_.addParameter(linear.base, "weight", weight, !adapted());
        if (!adapted())
            return linear;
        linear.dropout = tape_.builder.addModule(fqn + ".lora_dropout", "Dropout", linear.self);
        linear.a = tape_.builder.addModule(fqn + ".lora_A", "Linear", linear.self);
        tape_.addParameter(linear.a, "weight", weight / 64);
        linear.b = tape_.builder.addModule(fqn + ".lora_B", "Linear", linear.self);
        tape_.addParameter(linear.b, "weight", weight / 64);
        return linear;
    }

    /// Blocks differ in the width of their feed_forward.
    Bytes hiddenOf(int block) const
    {
        const int kinds = std::max(options_.kinds, 1);
        return 4 * options_.activation + block % kinds * (2 * options_.activation / kinds / 1024 * 1024);
    }

    /// What backward saves: a frozen weight's gradient, which would need the input, is not asked for.
    StorageId plainLinear(ModuleId self, std::size_t weight, StorageId x, Bytes in, Bytes out)
    {
        tape_.enter(self, x);
        const SyntheticTape::Parameter& parameter = tape_.parameters[weight];
        const StorageId w = parameter.trained && adapted() ? cast(parameter) : parameter.storage;
        tape_.op({.name = "aten.t.default",
                  .node = "TBackward0",
                  .inputs = {w},
                  .outputs = {},
                  .saved = {},
                  .flags = opView});
        const double flops = static_cast<double>(in) * static_cast<double>(parameter.bytes) / 4096;
        const std::vector<StorageId> saved = parameter.trained ? std::vector{x, w} : std::vector{w};
        return tape_.exit(tape_.op({.name = "aten.mm.default",
                                    .node = "MmBackward0",
                                    .inputs = {x, w},
                                    .outputs = {out},
                                    .saved = saved,
                                    .parameter = weight,
                                    .gradient = in,
                                    .flops = flops}));
    }

    StorageId cast(const SyntheticTape::Parameter& parameter)
    {
        constexpr std::uint16_t none = 0;
        casts_.push_back(tape_.op({.name = "aten._to_copy.default",
                                   .node = "",
                                   .inputs = {parameter.storage},
                                   .outputs = {parameter.bytes / 2},
                                   .saved = {},
                                   .flags = options_.backwardInAutocast ? std::uint16_t{opAutocastCast} : none}));
        return casts_.back();
    }

    void leaveAutocast()
    {
        std::ranges::shuffle(casts_, random_);
        for (const StorageId cast : casts_)
            tape_.builder.free(cast);
        casts_.clear();
    }

    StorageId linear(const Linear& l, StorageId x, Bytes in, Bytes out)
    {
        if (!adapted())
            return plainLinear(l.self, l.weight, x, in, out);
        tape_.enter(l.self, x);
        const StorageId base = plainLinear(l.base, l.weight, x, in, out);
        tape_.residualBegin(in);
        tape_.enter(l.dropout, x);
        const StorageId dropped = tape_.exit(dropout(x, in, in / 4));
        const StorageId small = plainLinear(l.a, l.weight + 1, dropped, in, options_.adapter);
        tape_.builder.free(dropped);
        const StorageId wide = plainLinear(l.b, l.weight + 2, small, options_.adapter, out);
        tape_.builder.free(small);
        const StorageId scaled = tape_.op({.name = "aten.mul.Tensor",
                                           .node = "MulBackward0",
                                           .inputs = {wide},
                                           .outputs = {out},
                                           .saved = {},
                                           .gradient = out});
        tape_.builder.free(wide);
        return tape_.exit(tape_.residualEnd(base, scaled, out));
    }

    StorageId dropout(StorageId x, Bytes size, Bytes mask)
    {
        return tape_.op({.name = "aten.native_dropout.default",
                         .node = "NativeDropoutBackward0",
                         .inputs = {x},
                         .outputs = {size, mask},
                         .saved = {},
                         .savesOutputs = true,
                         .gradient = size,
                         .flags = opRandom});
    }

    StorageId norm(const Norm& n, StorageId x)
    {
        tape_.enter(n.self, x);
        const Bytes small = std::max<Bytes>(options_.activation / 1024, 4);
        const StorageId w = tape_.parameters[n.weight].storage;
        return tape_.exit(tape_.op({.name = "aten.native_layer_norm.default",
                                    .node = "NativeLayerNormBackward0",
                                    .inputs = {x, w},
                                    .outputs = {options_.activation, small, small},
                                    .saved = {x, w},
                                    .savesOutputs = true,
                                    .parameter = n.weight,
                                    .gradient = options_.activation}));
    }

    StorageId attention(const Block& b, StorageId x)
    {
        const Bytes size = options_.activation;
        tape_.enter(b.attention, x);
        const StorageId q = linear(b.wq, x, size, size);
        tape_.op({.name = "aten.mul_.Tensor",
                  .node = "MulBackward0",
                  .inputs = {q},
                  .outputs = {},
                  .saved = {},
                  .gradient = size,
                  .flags = opInPlace});
        tape_.op({.name = "aten.detach.default",
                  .node = "",
                  .inputs = {q},
                  .outputs = {},
                  .saved = {},
                  .flags = opView | opSacIgnored});
        const StorageId mixed = tape_.op({.name = "aten._scaled_dot_product_flash_attention.default",
                                          .node = "ScaledDotProductFlashAttentionBackward0",
                                          .inputs = {q},
                                          .outputs = {size, std::max<Bytes>(size / 64, 4)},
                                          .saved = {q},
                                          .savesOutputs = true,
                                          .gradient = size,
                                          .flops = static_cast<double>(size) * 64});
        tape_.builder.free(q);
        const StorageId result = linear(b.wo, mixed, size, size);
        tape_.builder.free(mixed);
        return tape_.exit(result);
    }

    StorageId feedForward(const Block& b, StorageId x, Bytes hidden)
    {
        const Bytes size = options_.activation;
        tape_.enter(b.feedForward, x);
        StorageId h = linear(b.w1, x, size, hidden);
        for (int i = 0; i < options_.elementwise; ++i) {
            const StorageId next = tape_.op({.name = "aten.gelu.default",
                                             .node = "GeluBackward0",
                                             .inputs = {h},
                                             .outputs = {hidden},
                                             .saved = {h},
                                             .gradient = hidden});
            tape_.builder.free(h);
            h = next;
        }
        const StorageId dropped = dropout(h, hidden, size);
        tape_.builder.free(h);
        const StorageId result = linear(b.w2, dropped, hidden, size);
        tape_.builder.free(dropped);
        return tape_.exit(result);
    }

    StorageId block(const Block& b, StorageId x, Bytes hidden)
    {
        tape_.enter(b.self, x);
        tape_.residualBegin(options_.activation);
        StorageId y = norm(b.attentionNorm, x);
        StorageId branch = attention(b, y);
        tape_.builder.free(y);
        x = tape_.residualEnd(x, branch, options_.activation);
        tape_.residualBegin(options_.activation);
        y = norm(b.ffnNorm, x);
        branch = feedForward(b, y, hidden);
        tape_.builder.free(y);
        return tape_.exit(tape_.residualEnd(x, branch, options_.activation));
    }

    StorageId forward(StorageId batch)
    {
        const Bytes size = options_.activation;
        tape_.enter(tape_.root, batch);
        tape_.enter(embedding_, batch);
        StorageId x = tape_.exit(tape_.op({.name = "aten.embedding.default",
                                           .node = "EmbeddingBackward0",
                                           .inputs = {tape_.parameters[embeddingWeight_].storage, batch},
                                           .outputs = {size},
                                           .saved = {batch},
                                           .parameter = embeddingWeight_}));
        for (int i = 0; i < options_.blocks; ++i)
            x = block(blocks_[static_cast<std::size_t>(i)], x, hiddenOf(i));
        const StorageId logits = plainLinear(output_.self, output_.weight, x, size, 2 * size);
        tape_.builder.free(x);
        tape_.exit(logits);
        const StorageId logProbabilities = tape_.op({.name = "aten._log_softmax.default",
                                                     .node = "LogSoftmaxBackward0",
                                                     .inputs = {logits},
                                                     .outputs = {2 * size},
                                                     .saved = {},
                                                     .savesOutputs = true,
                                                     .gradient = 2 * size});
        tape_.builder.free(logits);
        const StorageId loss = tape_.op({.name = "aten.nll_loss_forward.default",
                                         .node = "NllLossBackward0",
                                         .inputs = {logProbabilities, batch},
                                         .outputs = {4, 4},
                                         .saved = {logProbabilities, batch},
                                         .gradient = 2 * size});
        tape_.builder.free(logProbabilities);
        return loss;
    }

    SyntheticOptions options_;
    SyntheticTape tape_;
    ModuleId embedding_;
    std::size_t embeddingWeight_ = 0;
    Linear output_;
    std::vector<Block> blocks_;
    std::vector<StorageId> casts_; ///< that autocast has
    std::mt19937 random_{1};
};

} // namespace

SyntheticOptions syntheticOptions(std::size_t events, int blocks)
{
    constexpr std::size_t perBlock = 322;
    constexpr std::size_t perElementwise = 13;
    SyntheticOptions options;
    options.blocks = blocks;
    const std::size_t each = events / static_cast<std::size_t>(blocks);
    options.elementwise = each > perBlock ? static_cast<int>((each - perBlock) / perElementwise) : 0;
    return options;
}

StepTracePtr makeSyntheticStep(const SyntheticOptions& options)
{
    return Maker(options).run();
}

} // namespace headroom
