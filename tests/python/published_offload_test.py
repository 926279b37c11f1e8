# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps with offload, recomputation or both beside published ones, and Headroom's plans beside the published plans.

    published_offload_test.py HEADROOM              the quick rows that this Python has the packages for
    published_offload_test.py HEADROOM --all        all rows, as a table, with the reason for each difference: 4 min
    published_offload_test.py HEADROOM PREFIX...    rows whose ids begin so, as a table

The rows are those of torchao/optim/README.md (commit 36027d82d) and of torchtitan's pull requests 3943 and 3975. Peaks
count cuBLAS's workspaces, as PyTorch's max_memory_allocated() does.
"""

import functools
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import support

support.need("torch")

_HEADROOM, *_ASKED = sys.argv[1:]
del sys.argv[1:]
_PEAK, _TIME = 0.01, 0.15  # relative errors that a row may have
_MANY = "1000000GiB"  # more than any step takes

# What runs: a script, its arguments, the card and the number of processes.
_VIT = """
import sys

import timm
import torch
from torchao.optim import CPUOffloadOptimizer

with torch.device("cuda"):
    model = timm.create_model("vit_giant_patch14_dinov2", num_classes=45, img_size=224)
model.set_grad_checkpointing()
model.bfloat16().train()
settings = {"lr": 1e-4, "weight_decay": 0, "fused": True}
if sys.argv[1] == "none":
    optimizer = torch.optim.AdamW(model.parameters(), **settings)
else:
    optimizer = CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW,
                                    offload_gradients=sys.argv[1] == "gradients", **settings)
for _ in range(3):
    images, labels = torch.randn(32, 3, 224, 224).bfloat16(), torch.randint(0, 45, (32,))
    torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# torchtitan's models: weights in float32 and a bfloat16 copy for each use, flex attention, a compiled loss in eight
# chunks. On one GPU blocks keep everything, or, with `selective`, products and attention, as torchtitan's default does.
# On several GPUs FSDP2 shards the model, and each block is a checkpoint.
# Where casts and the loss's memory end is not published: of four variants that torchtitan's source allows, all rows have
# the variant that came closest to the peak of Llama 3 1B.
_TITAN = """
import os
import sys

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

SHAPES = {"Llama3-1B": (2048, 8192, 16, 32, 8, 64, 128256), "Llama3-8B": (4096, 14336, 32, 32, 8, 128, 128256),
          "Qwen3-1.7B": (2048, 6144, 28, 16, 8, 128, 151936), "Qwen3-14B": (5120, 17408, 40, 40, 8, 128, 151936)}
name, batch, length = sys.argv[1], *map(int, sys.argv[2:4])
width, inner, layers, heads, groups, size, words = SHAPES[name]
sharded, selective, normed = "RANK" in os.environ, "selective" in sys.argv, name.startswith("Qwen")
attend = torch.compile(flex_attention, options={"wrap_inductor_compiled_regions": True} if selective else {})


def kept_or_not(_, op, *arguments, **__):
    # No backward reads the results of wo and w2. Eager PyTorch would keep those, too.
    kept = op is torch._higher_order_ops.inductor_compiled_code or (
        op is torch.ops.aten.mm.default and arguments[1].shape[1] != width)
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


@torch.compile
def entropy(logits, labels):
    return functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), reduction="sum")


class Cast(nn.Module):
    def forward(self, weight):
        return weight.to(torch.bfloat16)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)
        self.wqkv = nn.Linear(width, (heads + 2 * groups) * size, bias=False)
        self.wo = nn.Linear(heads * size, width, bias=False)
        self.w1, self.w3 = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.w2 = nn.Linear(inner, width, bias=False)
        if normed:
            self.q_norm, self.k_norm = nn.RMSNorm(size, 1e-6), nn.RMSNorm(size, 1e-6)

    def rotated(self, x, angles):
        if normed:
            first, second = x.chunk(2, -1)
            return (x * angles + torch.cat((-second, first), -1) * angles).type_as(x)
        wide = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(wide * angles).flatten(3).type_as(x)

    def forward(self, x, angles, mask):
        qkv = self.wqkv(self.attention_norm(x)).view(batch, length, groups, -1, size)
        q, k, v = qkv.split((heads // groups, 1, 1), 3)
        q, k, v = q.reshape(batch, length, heads, size), k.squeeze(3), v.squeeze(3)
        if normed:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = self.rotated(q, angles), self.rotated(k, angles)
        mixed = attend(*(part.transpose(1, 2) for part in (q, k, v)), block_mask=mask, enable_gqa=True)
        x = x + self.wo(mixed.transpose(1, 2).reshape(batch, length, -1))
        inside = self.ffn_norm(x)
        return x + self.w2(functional.silu(self.w1(inside)) * self.w3(inside))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.RMSNorm(width, 1e-5)
        self.lm_head = nn.Linear(width, words, bias=False)

    def forward(self, ids, *others):
        x = self.tok_embeddings(ids)
        for layer in self.layers:
            if sharded or selective:
                options = {}
                if selective:
                    options["context_fn"] = lambda: create_selective_checkpoint_contexts(kept_or_not)
                x = checkpoint(layer, x, *others, use_reentrant=False, **options)
            else:
                x = layer(x, *others)
        return self.norm(x)


class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, gradient, loss):
        ctx.save_for_backward(gradient)
        return loss.clone()

    @staticmethod
    def backward(ctx, _):
        return ctx.saved_tensors[0], None, None


def loss_in_chunks(hidden, labels):
    total, gradient = 0, torch.zeros_like(hidden, dtype=torch.float32)
    chunks = [chunk.contiguous().detach().requires_grad_() for chunk in hidden.chunk(8, 1)]
    if sharded:
        model.lm_head.set_reshard_after_forward(False)
        model.lm_head.set_reshard_after_backward(False)
    for chunk, into, some in zip(chunks, gradient.chunk(8, 1), labels.chunk(8, 1)):
        if sharded:
            model.lm_head.set_requires_gradient_sync(chunk is chunks[-1], recurse=False)
        loss = entropy(model.lm_head(chunk), some) / labels.numel()
        total = total + loss.detach()
        loss.backward()
        into.copy_(chunk.grad)
        chunk.grad = None
    if sharded:
        model.lm_head.reshard()
    return Loss.apply(hidden, gradient.to(hidden.dtype), total)


with torch.device("meta" if sharded else "cuda"):
    model = Model()
if sharded:
    torch.distributed.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    for module in (*model.layers, model.tok_embeddings, model.norm, model.lm_head, model):
        fully_shard(module, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    model.to_empty(device="cuda")
else:
    model.lm_head.weight = model.tok_embeddings.weight
    for module in list(model.modules()):
        for which, _ in list(module.named_parameters(recurse=False)):
            nn.utils.parametrize.register_parametrization(module, which, Cast(), unsafe=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
angles = torch.rand(length, 1, size if normed else size // 2, device="cuda")
angles = angles if normed else torch.polar(torch.ones_like(angles), angles)
mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, length, length, device="cuda")
for _ in range(3):
    ids = torch.randint(0, words, (batch, length), device="cuda")
    optimizer.zero_grad()
    loss_in_chunks(model(ids, angles, mask), ids).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""
_RUNS = {"vit-" + what: (_VIT, [what], "rtx-4070-ti-super-16gb", 1) for what in ("none", "optimizer", "gradients")}
_RUNS |= {f"{model}-selective": (_TITAN, [model, 4, 2048, "selective"], "h100-80gb", 1)
          for model in ("Llama3-1B", "Qwen3-1.7B")}
_RUNS |= {f"{model}-{batch}x{length}-{gpus}": (_TITAN, [model, batch, length], "h100-80gb", gpus)
          for model, batch, length, gpus in (
              ("Llama3-1B", 4, 2048, 1), ("Qwen3-1.7B", 4, 2048, 1), ("Llama3-8B", 8, 2048, 4),
              ("Llama3-8B", 16, 2048, 4), ("Llama3-8B", 8, 4096, 4), ("Qwen3-14B", 8, 2048, 4),
              ("Qwen3-14B", 16, 2048, 4), ("Qwen3-14B", 8, 4096, 4), ("Qwen3-14B", 16, 2048, 8))}

# Why figures differ.
_TIMM = "the version of timm is not published: 1.0.31 takes 25 MB less than 1.0.9, with 0.997, 0.996 and 0.996"
_KEPT = "what else the graph keeps with selective checkpoints is not published"
_SLOW = "why the captured graph takes 1.8 to 2.3 times the predicted time is not known"
_FSDP = "SimpleFSDP in a graph: probably gathers and frees parameters in another order than FSDP2"
_ARGUMENTS = "Headroom sends the arguments of recomputed layers to the host, too"

# Published seconds and peak bytes of steps without a plan, and why peak and time differ.
_STEPS = {
    "torchao-none": ("vit-none", 1.27, 9.82e9, _TIMM, ""),
    "torchao-optimizer": ("vit-optimizer", 1.52, 5.24e9, _TIMM, ""),
    "torchao-gradients": ("vit-gradients", 1.53, 4.01e9, _TIMM, ""),
    "3943-Llama3-1B-none": ("Llama3-1B-4x2048-1", 0.288, 32.23e9, "", _SLOW),
    "3943-Qwen3-1.7B-none": ("Qwen3-1.7B-4x2048-1", 0.540, 46.96e9, "", _SLOW),
    "3943-Llama3-1B-selective": ("Llama3-1B-selective", 0.309, 24.88e9, _KEPT, _SLOW),
    "3943-Qwen3-1.7B-selective": ("Qwen3-1.7B-selective", 0.619, 34.95e9, "", _SLOW),
} | {f"3975-{run}-full": (run, tokens / rate, gib * 2**30, _FSDP, "") for run, tokens, rate, gib in (
    ("Llama3-8B-8x2048-4", 16384, 6553, 34.22), ("Llama3-8B-16x2048-4", 32768, 7746, 40.11),
    ("Llama3-8B-8x4096-4", 32768, 7442, 40.14), ("Qwen3-14B-8x2048-4", 16384, 3580, 61.43),
    ("Qwen3-14B-16x2048-4", 32768, 4026, 66.31), ("Qwen3-14B-8x4096-4", 32768, 3946, 66.39),
    ("Qwen3-14B-16x2048-8", 32768, 4073, 45.31))}
# Published plans: the peak, the ms that the plan adds, and the per cent that are kept, recomputed and offloaded.
_PLANS = {f"3943-{model}-ilp-{peak}": (f"{model}-4x2048-1", peak * 1e9, ms, shares) for model, peak, ms, shares in (
    ("Llama3-1B", 21.39, 43, (13.8, 72.3, 13.9)), ("Llama3-1B", 22.07, 35, (28.0, 58.1, 13.9)),
    ("Llama3-1B", 24.35, 18, (44.2, 41.9, 13.9)), ("Qwen3-1.7B", 29.49, 77, (14.4, 69.9, 15.7)),
    ("Qwen3-1.7B", 30.32, 58, (24.4, 59.9, 15.7)), ("Qwen3-1.7B", 33.76, 55, (37.0, 47.3, 15.7)))}
# Published plans of 3975: bytes above full recomputation's peak, and the gain in tokens a second.
_GAINS = {f"3975-{run}-ilp": (run, (ilp - full) * 2**30, 100 * (rate / before - 1)) for run, full, ilp, before, rate in (
    ("Llama3-8B-8x2048-4", 34.22, 34.67, 6553, 7002), ("Llama3-8B-16x2048-4", 40.11, 40.31, 7746, 7750),
    ("Llama3-8B-8x4096-4", 40.14, 40.34, 7442, 7502), ("Qwen3-14B-8x2048-4", 61.43, 61.62, 3580, 3617),
    ("Qwen3-14B-16x2048-4", 66.31, 66.91, 4026, 4135), ("Qwen3-14B-8x4096-4", 66.39, 66.93, 3946, 4103))}
_QUICK = ("torchao-none", "torchao-gradients", "3943-Llama3-1B-none", "3943-Llama3-1B-ilp-21.39",
          "3975-Llama3-8B-8x2048-4-full")
# Rows that cannot be built here, and how many.
_NOT_BUILT = {
    "3943, selective checkpoints, the rest offloaded (2)": "a pass over the graph; peaks are those of the lowest plans",
    "3975, plans below the peak of full recomputation (2)": "no plan of Headroom goes below, so nothing is beside",
    "torchtitan 3522 (9)": "only relative figures, without batch and length",
    "pytorch 186161 (2)": "only relative figures, without batch and length",
    "pytorch 167880 (2)": "model in a gist, the GPU is not named",
    "pytorch 174436 (2)": "the stages of the pipeline and the GPU are not published",
    "Megatron-LM 1752 (3)": "layers and widths are not published",
    "Megatron-LM, golden values (2)": "Megatron-LM on Transformer Engine: kernels that need a GPU when they are built",
    "Megatron-Bridge (10)": "Megatron-LM on Transformer Engine; four rows are relative",
    "DeepSpeed 8255 (15)": "DeepCompile's passes measure on eight GPUs; no peaks are published",
    "DeepSpeed 8186 (12)": "DeepCompile, or Adam on the CPU, which takes no time in a step; no peaks are published",
    "torchao, ZeRO-Offload (1)": "DeepSpeed's Adam on the CPU takes no time in a step",
    "ArcticTraining (3)": "only longest contexts; data and tiling come from recipes of several programs",
}


def missing(name):
    """The packages that a row needs and this Python lacks."""
    names = ("timm", "torchao") if name.startswith("torchao") else ()
    return [package for package in names if importlib.util.find_spec(package) is None]


def headroom(*words):
    done = subprocess.run([*map(str, (_HEADROOM, *words, "--json"))], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise support.Wrong(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)


class PublishedOffload(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    @functools.cache
    def recorded(self, run, *options):
        """The step file of a run."""
        script, arguments, gpu, gpus = _RUNS[run]
        train, step = self.folder / "train.py", self.folder / f"{run}{len(options)}.hrs"
        train.write_text(script)
        ranks = ["--nproc-per-node", gpus] if gpus > 1 else []
        words = [sys.executable, "-m", "torch_headroom.record", "--gpu", gpu, "--no-source-lines", *ranks, *options,
                 "-o", step, train, *arguments]
        done = subprocess.run([*map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            raise support.Wrong(done.stderr.strip().splitlines()[-1])
        return step

    def compared(self, name):
        """Published and found figures of a row: by name, with the relative error that is allowed (None: the figures
        only stand beside each other) and the reason for a larger one."""
        if name in _STEPS:
            run, seconds, peak, why, slow = _STEPS[name]
            info = headroom("info", self.recorded(run))
            return {"peak GB": (peak / 1e9, info["card"]["allocated_peak_bytes"] / 1e9, _PEAK, why),
                    "step s": (seconds, info["clock"]["step_ms"] / 1e3, _TIME, slow)}
        return self.plan_beside(name) if name in _PLANS else self.gain_beside(name)

    def plan_beside(self, name):
        run, peak, ms, shares = _PLANS[name]
        step = self.recorded(run)
        info, least = headroom("info", step), headroom("plan", step, "--budget", _MANY)["least_budget_bytes"]
        workspaces = info["card"]["workspace_bytes"]
        plan = headroom("plan", step, "--offload", "--budget", max(int(peak) - workspaces, least))
        saved = {module["fqn"]: module["act_fw_per_module"] for module in headroom("modules", step)["mod_stats"]}
        again = sum(share * saved[fqn] for fqn, share in plan["decisions"].items())
        moved = plan.get("offload", {}).get("moved_bytes", 0)
        found = [100 * some / saved["Model"] for some in (saved["Model"] - again - moved, again, moved)]
        figures = {"peak GB": (peak / 1e9, (plan["peak_bytes"] + workspaces) / 1e9, _PEAK, ""),
                   "added ms": (ms, plan["clock"]["step_ms"] - info["clock"]["step_ms"], None, _SLOW)}
        for what, theirs, ours in zip(("kept %", "recomputed %", "offloaded %"), shares, found):
            figures[what] = theirs, ours, None, ""
        return figures

    def gain_beside(self, name):
        run, slack, gain = _GAINS[name]
        info = headroom("info", self.recorded(run))
        plan = headroom("plan", self.recorded(run, "--without-checkpointing"), "--offload",
                        "--budget", int(info["peak_bytes"] + slack))
        return {"gain %": (gain, (info["clock"]["step_ms"] / plan["clock"]["step_ms"] - 1) * 100, None, _ARGUMENTS)}

    def check(self, name):
        if lacking := missing(name):
            self.skipTest(f"this Python has no {', '.join(lacking)}")
        for what, (published, found, within, why) in self.compared(name).items():
            if within is not None and why is not _SLOW:
                # A known difference may not grow.
                self.assertLess(abs(found / published - 1), 2 * within if why else within, (what, published, found))

    def table(self, names):
        """Prints the rows; returns how many do not hold and have no reason."""
        wrong = 0
        for name in names:
            try:
                figures = {} if missing(name) else self.compared(name)
            except support.Wrong as error:
                print(f"{name:<32} failed: {error}", flush=True)
                wrong += 1
                continue
            if lacking := missing(name):
                print(f"{name:<32} not built: this Python has no {', '.join(lacking)}", flush=True)
            for what, (published, found, within, why) in figures.items():
                holds = within is not None and abs(found / published - 1) < within
                wrong += within is not None and not holds and not why
                print(f"{name:<32} {what:<12} {published:9.3f} {found:9.3f} {found / published:6.3f} "
                      f"{'' if holds else why or (within and 'WRONG') or ''}", flush=True)
        return wrong


for _name in _QUICK:
    setattr(PublishedOffload, "test_" + re.sub(r"\W", "_", _name), lambda self, row=_name: self.check(row))

if __name__ == "__main__":
    if _ASKED:
        PublishedOffload.setUpClass()
        chosen = [name for name in (*_STEPS, *_PLANS, *_GAINS) if "--all" in _ASKED or name.startswith(tuple(_ASKED))]
        wrong = PublishedOffload().table(chosen)
        if "--all" in _ASKED:
            for rows, why in _NOT_BUILT.items():
                print(f"not built: {rows}: {why}")
        sys.exit(1 if wrong else 0)
    unittest.main()
