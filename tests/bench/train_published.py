# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A language model as a published row describes it, on as many ranks: what record_distributed.py records.

PUBLISHED_ROW holds the row of training_distributed.json. MPT is Composer's (FSDP, blocks of attention and a plain MLP
with biases), the others are torchtitan's and fms-fsdp's Llamas. One micro step with its optimizer.
"""

import json
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

row = json.loads(os.environ["PUBLISHED_ROW"])
config = row["config"]
D, HEADS = config["d"], config["heads"]
KV = config.get("kv", HEADS)
WIDTH = config.get("head_dim", D // HEADS)
MPT = config["model"].startswith("MPT")


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return nn.functional.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)


def norm():
    return nn.LayerNorm(D, bias=False) if MPT else RMSNorm(D)


def rotated(x, rotation):
    """Rotary embedding in pairs, as Llama's: in float32, as torchtitan and fms compute it."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rotation).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq = nn.Linear(D, HEADS * WIDTH, bias=False)
        self.wk = nn.Linear(D, KV * WIDTH, bias=False)
        self.wv = nn.Linear(D, KV * WIDTH, bias=False)
        self.wo = nn.Linear(HEADS * WIDTH, D, bias=False)

    def forward(self, x, rotation):
        batch, length, _ = x.shape
        q, k, v = (linear(x).view(batch, length, -1, WIDTH) for linear in (self.wq, self.wk, self.wv))
        q, k = rotated(q, rotation), rotated(k, rotation)
        if KV != HEADS:
            k, v = (t.repeat_interleave(HEADS // KV, dim=2) for t in (k, v))
        out = nn.functional.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        return self.wo(out.transpose(1, 2).reshape(batch, length, -1))


class FusedAttention(nn.Module):
    """MPT's: one product for all three, no rotation."""

    def __init__(self):
        super().__init__()
        self.Wqkv = nn.Linear(D, 3 * D, bias=config.get("bias", False))
        self.out_proj = nn.Linear(D, D, bias=config.get("bias", False))

    def forward(self, x, rotation):
        batch, length, _ = x.shape
        q, k, v = (t.view(batch, length, HEADS, WIDTH).transpose(1, 2) for t in self.Wqkv(x).chunk(3, dim=2))
        out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(out.transpose(1, 2).reshape(batch, length, D))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        bias = MPT and config.get("bias", False)
        self.w1 = nn.Linear(D, config["ffn"], bias=bias)
        self.w2 = nn.Linear(config["ffn"], D, bias=bias)
        self.w3 = None if MPT else nn.Linear(D, config["ffn"], bias=False)

    def forward(self, x):
        if MPT:
            return self.w2(nn.functional.gelu(self.w1(x)))
        return self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = FusedAttention() if MPT else Attention()
        self.feed_forward = FeedForward()
        self.attention_norm, self.ffn_norm = norm(), norm()

    def forward(self, x, rotation):
        h = x + self.attention(self.attention_norm(x), rotation)
        return h + self.feed_forward(self.ffn_norm(h))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(config["vocab"], D)
        self.positions = nn.Embedding(config["seq"], D) if MPT else None
        self.layers = nn.ModuleList(Block() for _ in range(config["layers"]))
        self.norm = norm()
        self.output = None if config.get("tied") else nn.Linear(D, config["vocab"], bias=False)

    def forward(self, tokens, rotation):
        h = self.tok_embeddings(tokens)
        if self.positions is not None:
            h = h + self.positions.weight
        for layer in self.layers:
            h = layer(h, rotation)
        h = self.norm(h)
        return nn.functional.linear(h, self.tok_embeddings.weight) if self.output is None else self.output(h)


def checkpointed(model):
    """The row's activation checkpointing: none, every block, every second block, or torchtitan's list of ops."""
    kind = config.get("ac") or "none"
    if kind == "none":
        return
    every = 2 if kind == "selective" else 1
    context = {}
    if kind == "selective op":
        from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

        saved = {
            torch.ops.aten._scaled_dot_product_flash_attention.default,
            torch.ops.aten._scaled_dot_product_cudnn_attention.default,
            torch.ops.aten._scaled_dot_product_efficient_attention.default,
            torch.ops._c10d_functional.reduce_scatter_tensor.default,
        }

        def contexts():
            products = {False: 0, True: 0}

            def policy(ctx, op, *args, **kwargs):
                if op == torch.ops.aten.mm.default:
                    products[ctx.is_recompute] += 1
                    keep = products[ctx.is_recompute] % 2 == 1
                else:
                    keep = op in saved
                return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

            return create_selective_checkpoint_contexts(policy)

        context = {"context_fn": contexts}
    for i in range(every - 1, len(model.layers), every):
        model.layers[i] = checkpoint_wrapper(model.layers[i], preserve_rng_state=False, **context)


def sharded(model, mesh):
    pure = "PURE" in config["dtype"] or "pure" in config["dtype"]
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16 if pure else torch.float32)
    reshard = "SHARD_GRAD_OP" not in config["sharding"]
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard and MPT)


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
if "HSDP" in config["sharding"]:
    mesh = dist.init_device_mesh("cuda", (row["gpus"] // 8, 8), mesh_dim_names=("replicate", "shard"))
else:
    mesh = dist.init_device_mesh("cuda", (row["gpus"],), mesh_dim_names=("shard",))
with torch.device("meta"):
    model = Model()
    if "pure bf16" in config["dtype"]:
        model.to(torch.bfloat16)
checkpointed(model)
if config.get("compile"):
    for layer in model.layers:
        layer.compile(fullgraph=True)
sharded(model, mesh)
model.to_empty(device="cuda")
# Composer's optimizer is a loop over parameters.
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=not MPT)
batch = config.get("local_batch") or config["micro_batch"]
length = config["seq"]
angles = torch.randn(1, length, 1, WIDTH // 2, device="cuda")
rotation = torch.polar(torch.ones_like(angles), angles)
for _ in range(3):
    tokens = torch.randint(0, config["vocab"], (batch, length), device="cuda")
    labels = torch.randint(0, config["vocab"], (batch, length), device="cuda")
    logits = model(tokens, rotation)
    # Composer's and fms's losses take bfloat16; torchtitan's is in float32.
    loss = nn.functional.cross_entropy((logits if MPT else logits.float()).flatten(0, 1), labels.flatten(0, 1))
    del logits
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
