# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A language model as a published row describes it, on as many ranks: what record_distributed.py records.

PUBLISHED_ROW holds the row of training_distributed.json. MPT is Composer's (FSDP1, blocks of attention and a plain MLP
with biases), the others are torchtitan's and fms-fsdp's Llamas, and torchtitan's Qwen3. `titan` in a configuration says
when torchtitan's code was as the row ran it. One micro step with its optimizer.
"""

import json
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

row = json.loads(os.environ["PUBLISHED_ROW"])
config = row["config"]
D, HEADS = config["d"], config["heads"]
KV = config.get("kv", HEADS)
WIDTH = config.get("head_dim", D // HEADS)
MPT = config["model"].startswith("MPT")
QWEN = config["model"].startswith("Qwen3")
TITAN = config.get("titan", "")
FIRST_TITAN = TITAN == "2024-03"  # its model returned float32, and its loop kept that during backward


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        if TITAN and TITAN < "2025-09":
            wide = x.float()
            return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight
        return nn.functional.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)


def norm():
    return nn.LayerNorm(D, bias=False) if MPT else RMSNorm(D)


def rotated(x, rotation):
    """Rotary embedding in pairs, as Llama's: in float32, as torchtitan and fms compute it. Qwen3's is by halves."""
    if QWEN:
        cosine, sine = (t.to(x.dtype) for t in (rotation.real, rotation.imag))
        first, second = x.chunk(2, -1)
        return x * torch.cat((cosine, cosine), -1) + torch.cat((-second, first), -1) * torch.cat((sine, sine), -1)
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rotation).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq = nn.Linear(D, HEADS * WIDTH, bias=False)
        self.wk = nn.Linear(D, KV * WIDTH, bias=False)
        self.wv = nn.Linear(D, KV * WIDTH, bias=False)
        self.wo = nn.Linear(HEADS * WIDTH, D, bias=False)
        self.q_norm, self.k_norm = (RMSNorm(WIDTH), RMSNorm(WIDTH)) if QWEN else (nn.Identity(), nn.Identity())

    def forward(self, x, rotation):
        batch, length, _ = x.shape
        q, k, v = (linear(x).view(batch, length, -1, WIDTH) for linear in (self.wq, self.wk, self.wv))
        q, k = self.q_norm(q), self.k_norm(k)
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
        logits = nn.functional.linear(h, self.tok_embeddings.weight) if self.output is None else self.output(h)
        return logits.float() if FIRST_TITAN else logits


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


def compiled(model):
    """Each block, as torchtitan does. Its first version compiled the whole model, whose graphs break at FSDP's hooks."""
    for layer in model.layers:
        layer.compile(fullgraph=True)
    if FIRST_TITAN:
        model.norm.compile()


def sharded(model, mesh):
    """By FSDP's units; what is used next in backward stays gathered, as the code of the row has it."""
    pure = "PURE" in config["dtype"] or "pure" in config["dtype"]
    reduced = torch.bfloat16 if pure else torch.float32
    if MPT or "FSDP1" in config["sharding"]:
        policy = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=reduced)
        return FullyShardedDataParallel(model, device_mesh=mesh, mixed_precision=policy, use_orig_params=True,
                                        auto_wrap_policy=ModuleWrapPolicy({type(model.layers[0])}), device_id=torch.cuda.current_device(),
                                        param_init_fn=lambda module: module.to_empty(device="cuda", recurse=False))
    policy = MixedPrecisionPolicy(torch.bfloat16, reduced)
    reshard = "SHARD_GRAD_OP" not in config["sharding"]
    separate_ends = TITAN >= "2025-09"
    if separate_ends:
        fully_shard(model.tok_embeddings, mesh=mesh, mp_policy=policy)
        fully_shard([model.norm, model.output], mesh=mesh, mp_policy=policy, reshard_after_forward=False)
    for layer in model.layers:
        kept = TITAN and not separate_ends and layer is model.layers[-1]
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard and not kept)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
    model.to_empty(device="cuda")
    return model


def cross_entropy(logits, labels):
    # Composer's and fms's losses take bfloat16; torchtitan's is in float32.
    return nn.functional.cross_entropy((logits if MPT else logits.float()).flatten(0, 1), labels.flatten(0, 1))


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
    compiled(model)
    if TITAN >= "2025-09":
        cross_entropy = torch.compile(cross_entropy)
model = sharded(model, mesh)
# Composer's optimizer is a loop over parameters; torchtitan's is fused by default since 2025.
fused = TITAN >= "2025" or config.get("opt") == "fused AdamW"
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused, foreach=not MPT and not fused)
batch = config.get("local_batch") or config["micro_batch"]
length = config["seq"]
angles = torch.randn(1, length, 1, WIDTH // 2, device="cuda")
rotation = torch.polar(torch.ones_like(angles), angles)
for _ in range(3):
    tokens = torch.randint(0, config["vocab"], (batch, length), device="cuda")
    labels = torch.randint(0, config["vocab"], (batch, length), device="cuda")
    logits = model(tokens, rotation)
    loss = cross_entropy(logits, labels)
    if not FIRST_TITAN:
        del logits
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
