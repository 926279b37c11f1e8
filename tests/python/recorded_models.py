# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The models of tests/data/pytorch/memtracker_python.json, each with the function that makes a loss of its batch.

Those of PyTorch's own tests (test/distributed/_tools/test_mem_tracker.py, test_sac_estimator.py) are written out here.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    """Of the Transformer in torch/testing/_internal/distributed/_tensor/common_dtensor.py."""

    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.dropout_p = dropout
        self.resid_dropout = nn.Dropout(dropout)
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        batch, length, _ = x.size()
        queries, keys, values = self.wq(x), self.wk(x), self.wv(x)
        queries = queries.view(batch, length, self.heads, -1).transpose(1, 2)
        keys = keys.view(batch, length, self.heads, -1).transpose(1, 2)
        values = values.view(batch, length, self.heads, -1).transpose(1, 2)
        output = F.scaled_dot_product_attention(queries, keys, values, None, self.dropout_p if self.training else 0)
        output = output.transpose(1, 2).contiguous().view(batch, length, -1)
        return self.resid_dropout(self.wo(output))


class FeedForward(nn.Module):
    def __init__(self, dim, hidden, dropout):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden)
        self.gelu = nn.GELU()
        self.w2 = nn.Linear(hidden, dim)
        self.resid_dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.resid_dropout(self.w2(self.gelu(self.w1(x))))


class TransformerBlock(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.attention_norm = nn.LayerNorm(dim)
        self.attention = Attention(dim, heads, dropout)
        self.ffn_norm = nn.LayerNorm(dim)
        self.feed_forward = FeedForward(dim, 4 * dim, dropout)

    def forward(self, x):
        h = x + self.attention(self.attention_norm(x))
        return h + self.feed_forward(self.ffn_norm(h))


class Transformer(nn.Module):
    def __init__(self, checkpoints, dim=768, heads=12, layers=4, vocabulary=8192, length=1024, dropout=0.1):
        super().__init__()
        self.checkpoints = checkpoints
        self.tok_embeddings = nn.Embedding(vocabulary, dim)
        self.pos_embeddings = nn.Embedding(length, dim)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(TransformerBlock(dim, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.output = nn.Linear(dim, vocabulary, bias=False)
        self.output.weight = self.tok_embeddings.weight

    def forward(self, tokens):
        _, length = tokens.size()
        h = self.tok_embeddings(tokens)
        pos = torch.arange(0, length, device=tokens.device)
        p = self.pos_embeddings(pos)
        h = h + p
        h = self.dropout(h)
        for layer in self.layers:
            h = checkpoint(layer, h, use_reentrant=False) if self.checkpoints else layer(h)
        h = self.norm(h)
        return self.output(h).float()


class DummyModel(nn.Module):
    def __init__(self, layers=4, dim=512, dtype=torch.bfloat16):
        super().__init__()
        self.linears = nn.ModuleList()
        for _ in range(layers):
            self.linears.append(nn.Linear(dim, dim, dtype=dtype))
            self.linears.append(nn.ReLU())

    def forward(self, x):
        for layer in self.linears:
            x = layer(x)
        return x


class GeluModel(nn.Module):
    def __init__(self, layers=3, dim=128):
        super().__init__()
        self.MLP_layers = nn.ModuleList()
        for _ in range(layers):
            self.MLP_layers.extend([nn.Linear(dim, 2 * dim), nn.GELU()])
            self.MLP_layers.extend([nn.Linear(2 * dim, dim), nn.GELU()])

    def forward(self, x):
        for layer in self.MLP_layers:
            x = layer(x)
        return x


class MLPBlock(nn.Module):
    def __init__(self, dim, dtype):
        super().__init__()
        self.mlp_block = nn.Sequential(
            nn.Linear(dim, 2 * dim, dtype=dtype), nn.ReLU(), nn.Linear(2 * dim, dim, dtype=dtype)
        )

    def forward(self, x):
        return self.mlp_block(x)


class MyModule(nn.Module):
    def __init__(self, checkpoints, layers=4, dim=1024, dtype=torch.float16):
        super().__init__()
        self.checkpoints = checkpoints
        self.mlp_blocks = nn.ModuleList(MLPBlock(dim, dtype) for _ in range(layers))

    def forward(self, x):
        for index, block in enumerate(self.mlp_blocks):
            if index >= 1 and self.checkpoints:
                x = checkpoint(block, x, preserve_rng_state=True, use_reentrant=False)
            else:
                x = block(x)
        return x


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(100, 100)
        self.seq = nn.Sequential(nn.ReLU(), nn.Linear(100, 100), nn.ReLU())

    def forward(self, x):
        return self.seq(self.l1(x))


class VisionBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        x = F.scaled_dot_product_attention(q, k, v)
        return self.proj(x.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """ViT-B/16 as timm builds it, which the reference has. torchvision's keeps one tensor more in each layer, a copy of
    the transposed normalized input for nn.MultiheadAttention."""

    def __init__(self, dim=768, heads=12, layers=12, patches=196):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, 16, 16)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, patches + 1, dim))
        self.blocks = nn.Sequential(*(VisionBlock(dim, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 1000)

    def forward(self, images):
        x = self.patch_embed(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1)
        x = x + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


def _sum(model, batch):
    return model(*batch).sum()


def _cross_entropy(model, batch):
    images, targets = batch
    return F.cross_entropy(model(images), targets)


def _labels(model, batch):
    return model(input_ids=batch[0], labels=batch[-1]).loss


def _next_token(model, batch):
    (tokens,) = batch
    logits = model(input_ids=tokens).logits
    return F.cross_entropy(logits[:, :-1].float().reshape(-1, logits.size(-1)), tokens[:, 1:].reshape(-1))


def _tokens(batch, length, count):
    return torch.randint(0, count, (batch, length))


def _transformer(checkpoints):
    return Transformer(checkpoints), (_tokens(8, 1024, 8192),), _sum


def _gpt2(loss):
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(use_cache=False))
    return model, (_tokens(8, 1024, 50257),), loss


def _llama(loss):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_default_dtype(torch.bfloat16)
    config = LlamaConfig(
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
        tie_word_embeddings=True,
        max_position_embeddings=131072,
        use_cache=False,
    )
    model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return model, (_tokens(1, 2048, 128256),), loss


def _bert():
    from transformers import BertConfig, BertForSequenceClassification

    return BertForSequenceClassification(BertConfig()), (_tokens(16, 512, 30522), torch.randint(0, 2, (16,))), _labels


def _images(model, count):
    return model, (torch.randn(count, 3, 224, 224), torch.randint(0, 1000, (count,))), _cross_entropy


def _resnet50():
    import torchvision

    return _images(torchvision.models.resnet50(), 32)


def _floats(*shape, dtype=torch.float32):
    return (torch.randn(*shape, dtype=dtype),)


# Name in the reference: the package that it needs, and a function that makes the model, its batch and its loss under
# `with torch.device(...)`.
MODELS = {
    "seed000_transformer": (None, lambda: _transformer(False)),
    "seed000_transformer_ac": (None, lambda: _transformer(True)),
    "seed002_dummy_relu": (None, lambda: (DummyModel(), _floats(16, 512, dtype=torch.bfloat16), _sum)),
    "seed002_gelu": (None, lambda: (GeluModel(), _floats(16, 128), _sum)),
    "seed002_mlp_noac": (None, lambda: (MyModule(False), _floats(128, 1024, 1024, dtype=torch.float16), _sum)),
    "seed002_mlp_ac": (None, lambda: (MyModule(True), _floats(128, 1024, 1024, dtype=torch.float16), _sum)),
    "seed004_toy": (None, lambda: (ToyModel(), _floats(20, 100), _sum)),
    "gpt2_bs8_s1024": ("transformers", lambda: _gpt2(_labels)),
    "gpt2_small_lm_bs8_s1024": ("transformers", lambda: _gpt2(_next_token)),
    "llama1b_bf16_bs1_s2048": ("transformers", lambda: _llama(_labels)),
    "llama_1b_bf16_bs1_s2048": ("transformers", lambda: _llama(_next_token)),
    "bert_base_bs16_s512": ("transformers", _bert),
    "resnet50_bs32": ("torchvision", _resnet50),
    "vit_b16_bs16": (None, lambda: _images(VisionTransformer(), 16)),
}
