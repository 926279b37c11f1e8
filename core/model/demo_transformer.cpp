// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/try.h"
#include "core/model/demo_source.h"
#include "core/model/settings.h"
#include "core/model/source.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/scaled_dot_product_attention.h>

// Modules, names and local variables are as in the Python model, so that values have the same lifetimes.
namespace headroom::demo {
namespace {

struct ModelArgs
{
    std::int64_t layers = 4;
    std::int64_t vocabulary = 8192;
    std::int64_t maxSequence = 1024;
    std::int64_t dim = 768;
    std::int64_t heads = 12;
    double dropout = 0.1;
    bool causal = true; ///< use_attn_mask
    bool weightTying = true;
};

struct Attention
{
    ModuleId id;
    std::int64_t heads;
    std::int64_t headDim;
    double dropoutP;
    bool causal;
    Layer residDropout;
    Linear wq, wk, wv, wo;

    Attention(ModuleBuilder& builder, ModuleId parent, const ModelArgs& args)
        : id(builder.child(parent, "attention", "Attention"))
        , heads(args.heads)
        , headDim(args.dim / args.heads)
        , dropoutP(args.dropout)
        , causal(args.causal)
        , residDropout(dropoutLayer(builder, id, "resid_dropout", args.dropout))
        , wq(builder, id, "wq", args.dim, args.dim, false)
        , wk(builder, id, "wk", args.dim, args.dim, false)
        , wv(builder, id, "wv", args.dim, args.dim, false)
        , wo(builder, id, "wo", args.dim, args.dim, false)
    {
    }
    at::Tensor forward(const at::Tensor& x)
    {
        const std::int64_t batch = x.size(0);
        const std::int64_t sequence = x.size(1);
        at::Tensor queries = call(wq, x);
        at::Tensor keys = call(wk, x);
        at::Tensor values = call(wv, x);
        queries = queries.view({batch, sequence, heads, headDim});
        keys = keys.view({batch, sequence, heads, headDim});
        values = values.view({batch, sequence, heads, headDim});
        queries = queries.transpose(1, 2);
        keys = keys.transpose(1, 2);
        values = values.transpose(1, 2);
        at::Tensor output = at::scaled_dot_product_attention(queries, keys, values, {}, dropoutP, causal);
        output = output.transpose(1, 2).contiguous().view({batch, sequence, -1});
        return call(residDropout, call(wo, output));
    }
};

struct FeedForward
{
    ModuleId id;
    Linear w1;
    Layer gelu;
    Linear w2;
    Layer residDropout;

    FeedForward(ModuleBuilder& builder, ModuleId parent, const ModelArgs& args)
        : id(builder.child(parent, "feed_forward", "FeedForward"))
        , w1(builder, id, "w1", args.dim, 4 * args.dim)
        , gelu(geluLayer(builder, id, "gelu"))
        , w2(builder, id, "w2", 4 * args.dim, args.dim)
        , residDropout(dropoutLayer(builder, id, "resid_dropout", args.dropout))
    {
    }
    at::Tensor forward(const at::Tensor& x) { return call(residDropout, call(w2, call(gelu, call(w1, x)))); }
};

struct TransformerBlock
{
    ModuleId id;
    LayerNorm attentionNorm;
    Attention attention;
    LayerNorm ffnNorm;
    FeedForward feedForward;

    TransformerBlock(ModuleBuilder& builder, ModuleId parent, std::string_view name, const ModelArgs& args)
        : id(builder.child(parent, name, "TransformerBlock"))
        , attentionNorm(builder, id, "attention_norm", args.dim)
        , attention(builder, id, args)
        , ffnNorm(builder, id, "ffn_norm", args.dim)
        , feedForward(builder, id, args)
    {
    }
    at::Tensor forward(const at::Tensor& x)
    {
        const at::Tensor h = x + call(attention, call(attentionNorm, x));
        return h + call(feedForward, call(ffnNorm, h));
    }
};

struct Transformer
{
    ModuleId id;
    Embedding tokEmbeddings;
    Embedding posEmbeddings;
    Layer dropout;
    std::vector<TransformerBlock> layers;
    LayerNorm norm;
    Linear output;

    Transformer(ModuleBuilder& builder, const ModelArgs& args)
        : id(builder.root("Transformer"))
        , tokEmbeddings(builder, id, "tok_embeddings", args.vocabulary, args.dim)
        , posEmbeddings(builder, id, "pos_embeddings", args.maxSequence, args.dim)
        , dropout(dropoutLayer(builder, id, "dropout", args.dropout))
        , layers(blocks(builder, id, args))
        , norm(builder, id, "norm", args.dim)
        , output(args.weightTying ? Linear(builder, id, "output", tokEmbeddings.weight)
                                  : Linear(builder, id, "output", args.dim, args.vocabulary, false))
    {
    }
    at::Tensor forward(const at::Tensor& tokens)
    {
        const std::int64_t sequence = tokens.size(1);
        at::Tensor h = call(tokEmbeddings, tokens);
        const at::Tensor pos = at::arange(0, sequence, at::TensorOptions(tokens.device()).dtype(at::kLong));
        const at::Tensor p = call(posEmbeddings, pos);
        h = h + p;
        h = call(dropout, h);
        for (TransformerBlock& layer : layers)
            h = call(layer, h);
        h = call(norm, h);
        return call(output, h).to(at::kFloat);
    }

private:
    static std::vector<TransformerBlock> blocks(ModuleBuilder& builder, ModuleId parent, const ModelArgs& args)
    {
        const ModuleId list = builder.child(parent, "layers", "ModuleList");
        std::vector<TransformerBlock> made;
        for (std::int64_t index = 0; index < args.layers; ++index)
            made.emplace_back(builder, list, std::to_string(index), args);
        return made;
    }
};

Result<ModelArgs> readArgs(const ModelRequest& request)
{
    ModelArgs args;
    SettingsReader settings(request.settings, request.name);
    settings.integer("n_layers", args.layers, 1, 1024);
    settings.integer("vocab_size", args.vocabulary, 1, 2'097'152);
    settings.integer("max_seq_len", args.maxSequence, 1, 1'048'576);
    settings.integer("dim", args.dim, 1, 65'536);
    settings.integer("n_heads", args.heads, 1, 65'536);
    settings.number("dropout_p", args.dropout, 0, 1);
    settings.flag("use_attn_mask", args.causal);
    settings.flag("weight_tying", args.weightTying);
    RETURN_IF_ERROR(settings.finish());
    if (args.dim % args.heads != 0)
        return badInput(request.name + ": dim " + std::to_string(args.dim) + " is not a multiple of n_heads "
                        + std::to_string(args.heads) + "; every head gets dim / n_heads columns");
    return args;
}

double estimatedBytes(const ModelArgs& args, std::int64_t batch, std::int64_t sequence)
{
    const auto real = [](std::int64_t number) { return static_cast<double>(number); };
    const double tokens = real(batch) * real(sequence);
    const double activations = tokens * (40.0 * real(args.layers) * real(args.dim) + 8.0 * real(args.vocabulary));
    const double parameters = real(args.dim) * (real(args.vocabulary) * 2 + 13.0 * real(args.layers) * real(args.dim));
    return 4 * activations + 20 * parameters;
}

} // namespace

Result<std::unique_ptr<ModelSource>> openTransformer(const ModelRequest& request)
{
    ASSIGN_OR_RETURN(const ModelArgs args, readArgs(request));
    ASSIGN_OR_RETURN(const std::int64_t batch, chosenSize("--batch", request.batch, 8, mostSamples));
    if (request.sequence > args.maxSequence)
        return badInput("--seq " + std::to_string(request.sequence) + " is longer than max_seq_len "
                        + std::to_string(args.maxSequence) + " of " + request.name
                        + "; raise the limit with --set max_seq_len=" + std::to_string(request.sequence));
    ASSIGN_OR_RETURN(const std::int64_t sequence,
                     chosenSize("--seq", request.sequence, args.maxSequence, args.maxSequence));
    RETURN_IF_ERROR(checkStepSize(request.name, estimatedBytes(args, batch, sequence)));

    ModuleBuilder builder(request.device, request.dtype.value_or(at::kFloat));
    Transformer model(builder, args);
    const at::TensorOptions tokens = at::TensorOptions(request.device).dtype(at::kLong);
    const at::Tensor input = computes(request.device) ? at::randint(args.vocabulary, {batch, sequence}, tokens)
                                                      : at::empty({batch, sequence}, tokens);
    return std::unique_ptr<ModelSource>(
        std::make_unique<DemoSource<Transformer>>(builder.take(), std::move(model), input, args.maxSequence));
}

} // namespace headroom::demo
