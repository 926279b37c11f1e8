// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/core/synthetic_step.h"

#include "tests/core/synthetic_tape.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
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
        const StorageId loss = forward(batch);
        tape_.builder.mark(Mark::forwardEnd);
        tape_.backward(loss);
        tape_.builder.mark(Mark::backwardEnd);
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
    struct Block
    {
        ModuleId self, attentionNorm, attention, wq, wo, ffnNorm, feedForward, w1, w2;
        std::size_t firstParameter = 0; ///< norm, wq, wo, norm, w1, w2
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
        embeddingWeight_ = tape_.addParameter(embedding_, "weight", 4 * options_.weight);
        const ModuleId layers = tape_.builder.addModule(name + ".layers", "ModuleList", tape_.root);
        for (int i = 0; i < options_.blocks; ++i)
            makeBlock(name + ".layers." + std::to_string(i), layers);
        output_ = tape_.builder.addModule(name + ".output", "Linear", tape_.root);
        if (options_.oneOfTwo)
            tape_.builder.addModule("models.Critic", "Critic", models);
        outputWeight_ = tape_.addParameter(output_, "weight", 4 * options_.weight);
        tape_.addOptimizerStates();
    }

    void makeBlock(const std::string& fqn, ModuleId layers)
    {
        Block b;
        const Bytes vector = std::max<Bytes>(options_.weight / 1024, 4);
        b.firstParameter = tape_.parameters.size();
        b.self = tape_.builder.addModule(fqn, "TransformerBlock", layers);
        b.attentionNorm = tape_.builder.addModule(fqn + ".attention_norm", "LayerNorm", b.self);
        tape_.addParameter(b.attentionNorm, "weight", vector);
        b.attention = tape_.builder.addModule(fqn + ".attention", "Attention", b.self);
        b.wq = tape_.builder.addModule(fqn + ".attention.wq", "Linear", b.attention);
        tape_.addParameter(b.wq, "weight", options_.weight);
        b.wo = tape_.builder.addModule(fqn + ".attention.wo", "Linear", b.attention);
        tape_.addParameter(b.wo, "weight", options_.weight);
        b.ffnNorm = tape_.builder.addModule(fqn + ".ffn_norm", "LayerNorm", b.self);
        tape_.addParameter(b.ffnNorm, "weight", vector);
        b.feedForward = tape_.builder.addModule(fqn + ".feed_forward", "FeedForward", b.self);
        b.w1 = tape_.builder.addModule(fqn + ".feed_forward.w1", "Linear", b.feedForward);
        tape_.addParameter(b.w1, "weight", 4 * options_.weight);
        b.w2 = tape_.builder.addModule(fqn + ".feed_forward.w2", "Linear", b.feedForward);
        tape_.addParameter(b.w2, "weight", 4 * options_.weight);
        blocks_.push_back(b);
    }

    /// Blocks differ in the width of their feed_forward.
    Bytes hiddenOf(int block) const
    {
        const int kinds = std::max(options_.kinds, 1);
        return 4 * options_.activation + block % kinds * (2 * options_.activation / kinds / 1024 * 1024);
    }

    StorageId linear(ModuleId self, std::size_t weight, StorageId x, Bytes in, Bytes out)
    {
        tape_.enter(self, x);
        const StorageId w = tape_.parameters[weight].storage;
        tape_.op({.name = "aten.t.default",
                  .node = "TBackward0",
                  .inputs = {w},
                  .outputs = {},
                  .saved = {},
                  .flags = opView});
        const double flops = static_cast<double>(in) * static_cast<double>(tape_.parameters[weight].bytes) / 4096;
        return tape_.exit(tape_.op({.name = "aten.mm.default",
                                    .node = "MmBackward0",
                                    .inputs = {x, w},
                                    .outputs = {out},
                                    .saved = {x, w},
                                    .parameter = weight,
                                    .gradient = in,
                                    .flops = flops}));
    }

    StorageId norm(ModuleId self, std::size_t weight, StorageId x)
    {
        tape_.enter(self, x);
        const Bytes small = std::max<Bytes>(options_.activation / 1024, 4);
        const StorageId w = tape_.parameters[weight].storage;
        return tape_.exit(tape_.op({.name = "aten.native_layer_norm.default",
                                    .node = "NativeLayerNormBackward0",
                                    .inputs = {x, w},
                                    .outputs = {options_.activation, small, small},
                                    .saved = {x, w},
                                    .savesOutputs = true,
                                    .parameter = weight,
                                    .gradient = options_.activation}));
    }

    StorageId attention(const Block& b, StorageId x)
    {
        const Bytes size = options_.activation;
        tape_.enter(b.attention, x);
        const StorageId q = linear(b.wq, b.firstParameter + 1, x, size, size);
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
        const StorageId result = linear(b.wo, b.firstParameter + 2, mixed, size, size);
        tape_.builder.free(mixed);
        return tape_.exit(result);
    }

    StorageId feedForward(const Block& b, StorageId x, Bytes hidden)
    {
        const Bytes size = options_.activation;
        tape_.enter(b.feedForward, x);
        StorageId h = linear(b.w1, b.firstParameter + 4, x, size, hidden);
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
        const StorageId dropped = tape_.op({.name = "aten.native_dropout.default",
                                            .node = "NativeDropoutBackward0",
                                            .inputs = {h},
                                            .outputs = {hidden, size},
                                            .saved = {},
                                            .savesOutputs = true,
                                            .gradient = hidden,
                                            .flags = opRandom});
        tape_.builder.free(h);
        const StorageId result = linear(b.w2, b.firstParameter + 5, dropped, hidden, size);
        tape_.builder.free(dropped);
        return tape_.exit(result);
    }

    StorageId block(const Block& b, StorageId x, Bytes hidden)
    {
        tape_.enter(b.self, x);
        tape_.residualBegin(options_.activation);
        StorageId y = norm(b.attentionNorm, b.firstParameter, x);
        StorageId branch = attention(b, y);
        tape_.builder.free(y);
        x = tape_.residualEnd(x, branch, options_.activation);
        tape_.residualBegin(options_.activation);
        y = norm(b.ffnNorm, b.firstParameter + 3, x);
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
        const StorageId logits = linear(output_, outputWeight_, x, size, 2 * size);
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
    ModuleId embedding_, output_;
    std::size_t embeddingWeight_ = 0, outputWeight_ = 0;
    std::vector<Block> blocks_;
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
