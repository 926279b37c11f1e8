# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the reference files beside it: one recorded step of a small model, and what PyTorch's own checkpoint does.

Each file holds the events of one un-checkpointed step (program and autograd holds apart, as core/trace records them),
and for a number of plans the live bytes after every allocation of the same step executed by
torch.utils.checkpoint(use_reentrant=False) with selective contexts. Everything runs on the CPU; storages are counted as
they appear in results of ops and when they die, rounded up to 512 bytes. Made with torch 2.11.0:

    python make_reference.py
"""
import functools
import gc
import json
import os
import random
import weakref

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)


def tensors(tree):
    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def rounded(nbytes):
    return (nbytes + 511) // 512 * 512


class Storages:
    """Numbers storages as they appear and tells of their death."""

    def __init__(self, on_alloc, on_free):
        self.ids = {}
        self.next = 0
        self.on_alloc, self.on_free = on_alloc, on_free

    def see(self, tensor):
        """The storage's number, or -1 for an empty one."""
        storage = tensor.untyped_storage()
        if storage.nbytes() == 0:
            return -1
        known = self.ids.get(storage._cdata)
        if known is not None:
            return known
        number = self.next
        self.next += 1
        self.ids[storage._cdata] = number
        weakref.finalize(storage, self.died, storage._cdata, number)
        self.on_alloc(number, rounded(storage.nbytes()))
        return number

    def died(self, cdata, number):
        del self.ids[cdata]
        self.on_free(number)


class LiveBytes(TorchDispatchMode):
    """Live bytes after every allocation of a step that runs under a plan."""

    def __init__(self):
        super().__init__()
        self.live = 0
        self.sizes = {}
        self.after_allocations = []
        self.storages = Storages(self.alloc, self.free)

    def alloc(self, number, nbytes):
        self.sizes[number] = nbytes
        self.live += nbytes
        self.after_allocations.append(self.live)

    def free(self, number):
        self.live -= self.sizes[number]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in tensors(out):
            self.storages.see(x)
        return out


class Pack:
    """What autograd holds instead of the tensor; its death is autograd's release."""

    def __init__(self, recorder, number, storage, shadow):
        self.recorder, self.number, self.storage, self.shadow = recorder, number, storage, shadow

    def __del__(self):
        self.recorder.event("release", self.number)


class Recorder(TorchDispatchMode):
    """Records one step. Tensors saved by autograd become shadows, so that a storage's death is the program's alone."""

    def __init__(self):
        super().__init__()
        self.events, self.ops, self.packs, self.sizes, self.calls = [], [], [], [], []
        self.shadows = {}
        self.paused = False
        self.storages = Storages(self.alloc, lambda number: self.event("free", number))

    def event(self, kind, number):
        self.events.append([kind, number])

    def alloc(self, number, nbytes):
        self.sizes.append(nbytes)
        self.event("alloc", number)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.paused:
            return func(*args, **kwargs)
        number = len(self.ops)
        op = {"name": str(func), "ignored": func in SAC_IGNORED_OPS}
        self.ops.append(op)
        self.event("opBegin", number)
        out = func(*args, **kwargs)
        # A result that is a shadow is an alias of a saved tensor: it is no storage of the step.
        op["outputs"] = [n for n in (self.see(x) for x in tensors(out)) if n >= 0]
        op["mutated"] = []
        if func._schema.is_mutable:
            for argument, value in zip(func._schema.arguments, args):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    op["mutated"] += [n for n in (self.see(x) for x in tensors(value)) if n >= 0]
        self.event("opEnd", number)
        return out

    def see(self, tensor):
        return -1 if tensor.untyped_storage()._cdata in self.shadows else self.storages.see(tensor)

    def shadow(self, tensor, on_death):
        """A copy on a storage of its own that is not counted."""
        self.paused = True
        storage = tensor.untyped_storage().clone()
        copy = torch.empty(0, dtype=tensor.dtype).set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
        self.paused = False
        cdata = storage._cdata
        self.shadows[cdata] = True

        def died():
            del self.shadows[cdata]
            on_death()

        weakref.finalize(storage, died)
        return copy

    def pack(self, tensor):
        number = len(self.packs)
        storage = self.see(tensor)
        self.packs.append(storage)
        self.event("pack", number)
        existed = storage < self.existing  # parameters, the batch: they live as long as the step
        return Pack(self, number, storage, tensor if existed else self.shadow(tensor, lambda: None))

    def unpack(self, pack):
        self.event("unpack", pack.number)
        if pack.storage < self.existing:
            self.event("unpackEnd", pack.number)
            return pack.shadow
        return self.shadow(pack.shadow, functools.partial(self.event, "unpackEnd", pack.number))

    def wrap(self, fqn, module):
        original = type(module).forward.__get__(module)

        def forward(*args, **kwargs):
            number = len(self.calls)
            self.calls.append({"fqn": fqn, "arguments": [self.see(x) for x in tensors((args, kwargs))]})
            self.event("enter", number)
            out = original(*args, **kwargs)
            self.event("exit", number)
            return out

        module.forward = forward


def unwrap(model):
    for module in model.modules():
        module.__dict__.pop("forward", None)


def step(model, batch):
    loss = model(batch)
    loss.backward()
    del loss
    for parameter in model.parameters():
        parameter.grad = None


def declare(storages, model, batch):
    for tensor in [*model.parameters(), *model.buffers(), batch]:
        storages.see(tensor)


def record(model, batch, candidates):
    recorder = Recorder()
    declare(recorder.storages, model, batch)
    recorder.existing = recorder.storages.next
    recorder.event("mark", 0)
    modules = dict(model.named_modules())
    for fqn in candidates:
        recorder.wrap(fqn, modules[fqn])
    with recorder, torch.autograd.graph.saved_tensors_hooks(recorder.pack, recorder.unpack):
        step(model, batch)
    unwrap(model)
    return recorder


def execute(model, batch, plan, recorder):
    modules = dict(model.named_modules())
    for fqn, save in plan.items():
        original = type(modules[fqn]).forward.__get__(modules[fqn])
        modules[fqn].forward = functools.partial(
            checkpoint, original, use_reentrant=False, context_fn=functools.partial(contexts, named(recorder, fqn, save))
        )
    counter = LiveBytes()
    declare(counter.storages, model, batch)
    counter.after_allocations.clear()
    with counter:
        step(model, batch)
    unwrap(model)
    return {"plan": plan, "live": counter.after_allocations, "end": counter.live}


def contexts(save):
    """`save`: pairs of an op's name and how many of that name ran before in the call."""
    counts = [{}, {}]

    def policy(context, op, *args, **kwargs):
        number = counts[context.is_recompute].get(str(op), 0)
        counts[context.is_recompute][str(op)] = number + 1
        return CheckpointPolicy.MUST_SAVE if (str(op), number) in save else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def region_ops(recorder, fqn):
    """Ops of the module's first call that selective checkpointing counts."""
    call = next(i for i, c in enumerate(recorder.calls) if c["fqn"] == fqn)
    begin, end = recorder.events.index(["enter", call]), recorder.events.index(["exit", call])
    return [n for kind, n in recorder.events[begin:end] if kind == "opBegin" and not recorder.ops[n]["ignored"]]


def named(recorder, fqn, save):
    """The ops numbered in `save` by name and number among those of the name."""
    names = [recorder.ops[op]["name"] for op in region_ops(recorder, fqn)]
    return frozenset((names[i], names[:i].count(names[i])) for i in save)


def savable(recorder, fqn):
    """Numbers of the ops whose outputs may be cached: they allocate them, and nothing changes them later."""
    creator, current = {}, None
    for kind, number in recorder.events:
        if kind == "opBegin":
            current = number
        elif kind == "alloc":
            creator[number] = current
    changed = {s for i, op in enumerate(recorder.ops) for s in op["mutated"] if creator.get(s) != i}
    result = []
    for number, op in enumerate(region_ops(recorder, fqn)):
        outputs = recorder.ops[op]["outputs"]
        if outputs and all(creator[s] == op and s not in changed for s in outputs):
            result.append(number)
    return result


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask, scale=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        weights = F.softmax(q @ k.transpose(-1, -2) * scale + mask, dim=-1)
        return self.out((F.dropout(weights, 0.1) @ v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim), nn.Linear(dim, 4 * dim)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(dim), Attention(dim)
        self.norm2, self.feed_forward = nn.LayerNorm(dim), FeedForward(dim)

    def forward(self, x, mask, *, scale):
        x = x + self.attention(self.norm1(x), mask, scale=scale)
        return x + self.feed_forward(self.norm2(x))


class Transformer(nn.Module):
    """Blocks with a shared mask and a scale tensor passed by keyword, tied embedding, cross entropy."""

    def __init__(self, layers=3, dim=64, words=96):
        super().__init__()
        self.embedding = nn.Embedding(words, dim)
        self.layers = nn.ModuleList(Block(dim) for _ in range(layers))

    def forward(self, words):
        mask = torch.full((words.shape[1], words.shape[1]), float("-inf")).triu(1)
        scale = torch.full((256,), 0.25)[:1]
        x = self.embedding(words)
        for layer in self.layers:
            x = layer(x, mask, scale=scale)
        return F.cross_entropy((x @ self.embedding.weight.t()).flatten(0, 1), words.flatten())


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.bn1, self.bn2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += x
        return self.relu(y)


class ConvolutionNet(nn.Module):
    """In-place ops, batch norm with its buffers, a stem whose output is changed in place."""

    def __init__(self, blocks=3, channels=8):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.layers = nn.ModuleList(Residual(channels) for _ in range(blocks))
        self.head = nn.Linear(channels, 10)

    def forward(self, x):
        x = self.stem(x).relu_()
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean((2, 3))).log_softmax(-1)[:, 0].neg().mean()


class Shared(nn.Module):
    """One block that runs three times, on what it made itself, with other shapes the second time."""

    def __init__(self, dim=64):
        super().__init__()
        self.block = FeedForward(dim)
        self.other = Attention(dim)

    def forward(self, x):
        scale, mask = torch.full((256,), 0.5)[:1], torch.zeros(256)[:1]
        h = self.block(x)
        g = self.other(self.block(h[:, ::2]), mask, scale)
        h = self.block(torch.cat([h, g], 1).tanh())
        return h.square().mean()


class Trunk(nn.Module):
    """Results that backward needs only in part, and a block whose last op saves its result."""

    def __init__(self, dim=64):
        super().__init__()
        self.first, self.second = Gate(dim), Gate(dim)

    def forward(self, x):
        a, unused = self.first(x)
        b, kept = self.second(a)
        return (b + kept).logsumexp(-1).mean()


class Gate(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, 2 * dim)

    def forward(self, x):
        a, b = self.linear(x).chunk(2, dim=-1)
        top = x.topk(8, dim=-1).values
        gate = torch.sigmoid(a) * torch.exp(-b)
        return gate, (gate * top.sum(-1, keepdim=True)).tanh()


class KeepOnContext(torch.autograd.Function):
    """Keeps a tensor on ctx without save_for_backward: the program holds it, not autograd."""

    @staticmethod
    def forward(ctx, x):
        ctx.factor = x.exp()
        ctx.save_for_backward(x.tanh())
        return x * ctx.factor

    @staticmethod
    def backward(ctx, gradient):
        (saved,) = ctx.saved_tensors
        return gradient * ctx.factor * (1 + saved)


class Custom(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)

    def forward(self, x):
        return KeepOnContext.apply(self.linear(x)).sin()


class Teacher(nn.Module):
    """A block that also runs without gradients, a function of one's own, a result that backward never reaches."""

    def __init__(self, dim=64):
        super().__init__()
        self.block, self.custom, self.gate = FeedForward(dim), Custom(dim), Gate(dim)

    def forward(self, x):
        with torch.no_grad():
            target = self.block(x)
        y = self.custom(self.block(x))
        y, unused = self.gate(self.custom(y))
        return ((y.relu_() - target) ** 2).mean()


class Autocast(nn.Module):
    """Mixed precision: weights are cast once and cached until autocast ends."""

    def __init__(self):
        super().__init__()
        self.model = Transformer(layers=2)

    def forward(self, words):
        with torch.autocast("cpu", torch.bfloat16):
            return self.model(words)


def plans(recorder, candidates, count, generator):
    result = [{c: [] for c in candidates if "." not in c.removeprefix("model.").removeprefix("layers.")}]
    result += [{c: savable(recorder, c)} for c in candidates[:2]]
    while len(result) < count:
        plan = {}
        for fqn in generator.sample(candidates, generator.randint(1, len(candidates))):
            if not any(fqn.startswith(other + ".") or other.startswith(fqn + ".") for other in plan):
                ops = savable(recorder, fqn)
                plan[fqn] = sorted(generator.sample(ops, generator.randint(0, len(ops))))
        result.append(plan)
    return result


def write(name, model, batch, candidates, count):
    torch.manual_seed(0)
    # The first step under a mode imports modules, whose caught exceptions keep frames and their tensors alive.
    record(model, batch, candidates)
    gc.collect()
    recorder = record(model, batch, candidates)
    generator = random.Random(name)
    executed = [execute(model, batch, {}, recorder)]
    executed += [execute(model, batch, plan, recorder) for plan in plans(recorder, candidates, count, generator)]
    kinds = ["alloc", "free", "opBegin", "opEnd", "enter", "exit", "pack", "unpack", "unpackEnd", "release", "mark"]
    document = {
        "torch": torch.__version__,
        "kinds": kinds,
        "storages": recorder.sizes,
        "ops": [[o["name"], o["ignored"], o["outputs"], o["mutated"]] for o in recorder.ops],
        "packs": recorder.packs,
        "calls": [[c["fqn"], [s for s in c["arguments"] if s >= 0]] for c in recorder.calls],
        "events": [x for kind, number in recorder.events for x in (kinds.index(kind), number)],
        "executed": executed,
    }
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".json")
    with open(path, "w") as file:
        json.dump(document, file, separators=(",", ":"))
        file.write("\n")
    print(name, len(recorder.events), "events", len(recorder.packs), "packs", len(executed), "plans", os.path.getsize(path))


def main():
    gc.disable()
    words = torch.randint(0, 96, (2, 32))
    write("transformer", Transformer(), words,
          [f"layers.{i}{part}" for i in range(3) for part in ("", ".attention", ".feed_forward")], 40)
    write("convolution", ConvolutionNet(), torch.randn(4, 3, 8, 8), [f"layers.{i}" for i in range(3)], 30)
    write("shared", Shared(), torch.randn(2, 32, 64), ["block", "other"], 12)
    write("teacher", Teacher(), torch.randn(2, 32, 64), ["block", "custom", "gate"], 30)
    write("autocast", Autocast(), words,
          [f"model.layers.{i}{part}" for i in range(2) for part in ("", ".attention", ".feed_forward")], 30)
    write("trunk", Trunk(), torch.randn(2, 32, 64), ["first", "second"], 30)


if __name__ == "__main__":
    main()
