# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Training programs drawn at random: what people combine in one loop, small enough to run by the hundred.

A Program is all that its seed says. It builds its models, runs steps on any device, and says which models a policy may
be applied to. Ops are such that the CPU and CUDA run the same ones, but for batch norm.
"""

import contextlib
import copy
import random

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Dropout(nn.Module):
    """With ops that the CPU and CUDA have in common, which torch's own are not."""

    def __init__(self, share):
        super().__init__()
        self.share = share

    def forward(self, x):
        if not self.training or self.share == 0:
            return x
        return x * (torch.rand_like(x) >= self.share) / (1 - self.share)


class Mlp(nn.Module):
    def __init__(self, draw, width):
        super().__init__()
        hidden = width * draw.choice([2, 3, 4])
        self.norm = nn.LayerNorm(width) if draw.random() < 0.7 else nn.Identity()
        self.up, self.down = nn.Linear(width, hidden, bias=draw.random() < 0.8), nn.Linear(hidden, width)
        self.act = draw.choice([nn.GELU(), nn.Tanh(), nn.SiLU(), nn.Softplus()])
        self.drop = Dropout(draw.choice([0.0, 0.1]))

    def forward(self, x):
        return x + self.drop(self.down(self.act(self.up(self.norm(x)))))


class InPlace(nn.Module):
    """Changes what it has made itself."""

    def __init__(self, draw, width):
        super().__init__()
        self.first, self.second, self.act = nn.Linear(width, width), nn.Linear(width, width), nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.second(self.act(self.first(x)))
        y += x
        return y.mul_(0.5)


class ChangesArgument(nn.Module):
    """Cannot run again from its argument, which it has changed."""

    def __init__(self, draw, width):
        super().__init__()
        self.inner, self.named = nn.Sequential(nn.Linear(width, width), nn.Tanh()), draw.random() < 0.5

    def forward(self, x):
        return x.add_(self.inner(x.detach() * 0.5))


class Running(nn.Module):
    """Reads a buffer that it changes, as spectral norm and codebooks do."""

    def __init__(self, draw, width):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, width), nn.GELU())
        self.register_buffer("scale", torch.ones(width))

    def forward(self, x):
        with torch.no_grad():
            self.scale.mul_(0.9).add_(0.1)
        return self.inner(x) * self.scale


class Attention(nn.Module):
    """With a mask that all layers share, and a cache that each layer writes its keys and values to."""

    def __init__(self, draw, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.drop = Dropout(0.1)
        self.named_cache = draw.random() < 0.5
        self.layer = None

    def forward(self, x, mask=None, cache=None):
        h = self.norm(x)
        query, key, value = self.query(h), self.key(h), self.value(h)
        if cache is not None:
            key, value = cache.update(self.layer, key, value)
        scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
        if mask is not None:
            scores = scores.masked_fill(mask, -1e4)
        return x + self.out(self.drop(scores.softmax(-1)) @ value)


class BatchNorm(nn.Module):
    def __init__(self, draw, width):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(width, width, 3, padding=1, bias=False), nn.BatchNorm1d(width)
        self.act = nn.ReLU(inplace=draw.random() < 0.5)

    def forward(self, x):
        return x + self.act(self.norm(self.conv(x.transpose(1, 2)))).transpose(1, 2)


class Gradient(nn.Module):
    """Returns a gradient of its own energy, as force fields do."""

    def __init__(self, draw, width):
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, x):
        with torch.enable_grad():
            place = x if x.requires_grad else x.detach().requires_grad_()
            return x + torch.autograd.grad(self.energy(place).float().sum(), place, create_graph=True)[0]


class Twice(nn.Module):
    """Calls one block twice."""

    def __init__(self, draw, width):
        super().__init__()
        self.block = Mlp(draw, width)

    def forward(self, x):
        return self.block(self.block(x) * 0.5)


class Checkpointed(nn.Module):
    """Checkpoints itself, as scripts do."""

    def __init__(self, draw, width):
        super().__init__()
        self.block, self.reentrant = Mlp(draw, width), draw.random() < 0.3

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=self.reentrant)


class Listed(nn.Module):
    """Appends its features to a list that it is given."""

    def __init__(self, draw, width):
        super().__init__()
        self.block = Mlp(draw, width)

    def forward(self, x, features):
        y = self.block(x)
        features.append(y)
        return y


class Cache:
    """As transformers' DynamicCache: made for one forward, grown by every layer."""

    def __init__(self):
        self.layers = []

    def update(self, layer, key, value):
        while len(self.layers) <= layer:
            self.layers.append({"keys": None, "values": None})
        entry = self.layers[layer]
        for name, tensor in (("keys", key), ("values", value)):
            entry[name] = tensor.clone() if entry[name] is None else torch.cat([entry[name], tensor], 1)
        return entry["keys"], entry["values"]


class Net(nn.Module):
    def __init__(self, draw, width, kinds, heads):
        super().__init__()
        self.stem = nn.Linear(width, width)
        self.blocks = nn.ModuleList(self.made(draw, width, kind) for kind in kinds)
        for layer, block in enumerate(b for b in self.modules() if isinstance(b, Attention)):
            block.layer = layer
        self.heads = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 5)) for _ in range(heads))
        self.mask, self.cache, self.keep = draw.random() < 0.4, draw.random() < 0.5, draw.random() < 0.3

    @staticmethod
    def made(draw, width, kind):
        if kind is nn.Sequential:
            return nn.Sequential(*(Mlp(draw, width) for _ in range(draw.choice([2, 3]))))
        return kind(draw, width)

    def forward(self, x):
        x = self.stem(x)
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1) if self.mask else None
        cache, features = Cache() if self.cache else None, []
        for block in self.blocks:
            if isinstance(block, Attention):
                x = block(x, mask, cache=cache) if block.named_cache else block(x, mask, cache)
            elif isinstance(block, Listed):
                x = block(x, features)
            else:
                x = block(x)
        results = [head(x) for head in self.heads]
        results[0] = results[0] + sum(f.mean() for f in features) if features else results[0]
        return {"results": results, "cache": cache} if self.keep else {"results": results}


class LossOf(nn.Module):
    """A model wrapped with its loss, as data-parallel training does."""

    def __init__(self, net, losses):
        super().__init__()
        self.net, self.losses = net, losses

    def forward(self, x):
        return self.losses(self.net(x))


COMMON = [Mlp, Mlp, nn.Sequential, Attention, Attention, InPlace, Twice, Listed]
RARE = [ChangesArgument, Running, BatchNorm, Checkpointed, Checkpointed]


class Program:
    def __init__(self, seed):
        draw = self._draw = random.Random(seed)
        self.seed = seed
        self.width = draw.choice([16, 24, 32])
        self.batch = draw.choice([4, 6, 8])
        self.length = draw.choice([16, 24])
        self.kinds = [draw.choice(RARE if draw.random() < 0.12 else COMMON) for _ in range(draw.randint(3, 6))]
        if draw.random() < 0.05:
            self.kinds[-1] = Gradient
        self.parts = draw.choice([1, 1, 1, 2, 3])  # micro-batches of a step
        self.style = draw.choice(["sum"] * 4 + ["separate"] * 3 + ["partial"] * 2 + ["penalty", "second"])
        self.loss_count = draw.choice([1, 2, 3]) if self.style != "separate" else draw.choice([2, 3])
        self.autocast = draw.random() < 0.4
        self.backward_in_autocast = self.autocast and draw.random() < 0.3
        self.one_autocast = self.autocast and draw.random() < 0.3  # around all micro-batches
        self.roots = draw.choice(["one", "one", "wrapped", "teacher", "adversary"])
        self.optimizers = draw.choice([1, 1, 2])
        self.dry_run = draw.random() < 0.15
        self.frozen = draw.random() < 0.15
        self.lbfgs = self.roots == "one" and self.optimizers == 1 and draw.random() < 0.05
        if Checkpointed in self.kinds or Gradient in self.kinds:
            # A reentrant checkpoint knows backward() alone.
            self.style = "sum"
            self.lbfgs = False
        if BatchNorm in self.kinds or InPlace in self.kinds:
            self.style = "separate" if self.style == "second" else self.style
            self.loss_count = max(self.loss_count, 2)
        self._blocks_seed = draw.random()

    def __str__(self):
        names = " ".join(kind.__name__ for kind in self.kinds)
        flags = [name for name in ("autocast", "backward_in_autocast", "one_autocast", "dry_run", "frozen", "lbfgs")
                 if getattr(self, name)]
        return (f"program {self.seed}: {names}; {self.loss_count} losses, {self.style}; {self.parts} parts; {self.roots}; "
                f"{self.optimizers} optimizers; {' '.join(flags)}")

    def build(self, device):
        """Models and optimizers. Twice the same, on any device."""
        torch.manual_seed(1)
        draw = random.Random(self._blocks_seed)
        self.device = device
        net = Net(draw, self.width, self.kinds, self.loss_count)
        if self.frozen:
            net.blocks[0].requires_grad_(False)
        self.net = net.to(device)
        self.models = {"net": self.net}  # those that a policy may be applied to
        if self.roots == "wrapped":
            self.models = {"wrapper": LossOf(self.net, self.losses)}
        elif self.roots == "teacher":
            self.teacher = copy.deepcopy(self.net).requires_grad_(False)
        elif self.roots == "adversary":
            self.adversary = nn.Sequential(*(Mlp(draw, self.width) for _ in range(2)), nn.Linear(self.width, 1)).to(device)
            self.models["adversary"] = self.adversary
        parameters = [p for p in self.net.parameters() if p.requires_grad]
        share = len(parameters) // 2 if self.optimizers == 2 else 0
        groups = [g for g in (parameters[:share], parameters[share:]) if g]
        make = [torch.optim.AdamW, torch.optim.SGD]
        self.optimizer_list = [make[i % 2](group, lr=1e-3) for i, group in enumerate(groups)]
        if self.lbfgs:
            self.optimizer_list = [torch.optim.LBFGS(parameters, lr=1e-3, max_iter=2, history_size=2)]
        if self.roots == "adversary":
            self.optimizer_list.append(torch.optim.Adam(self.adversary.parameters(), lr=1e-3))
        torch.manual_seed(2)
        if self.dry_run:
            self.net(torch.zeros(1, self.length, self.width, device=device))
        return self

    def losses(self, outputs):
        return [r.float().square().mean() for r in outputs["results"]]

    def step(self):
        """One training step. Its gradients are left in `gradients` as they were when the optimizers made their steps."""
        if self.lbfgs:
            self.optimizer_list[0].step(self._closure)
        else:
            with self._autocast() if self.one_autocast else contextlib.nullcontext():
                for _ in range(self.parts):
                    self._part()
            if self.roots == "adversary":
                self._adversary_part()
            self.gradients = self._gradients()
            for optimizer in self.optimizer_list:
                optimizer.step()
        for optimizer in self.optimizer_list:
            optimizer.zero_grad()

    def _gradients(self):
        if self.device != "cpu":
            return None
        models = [self.net, self.adversary] if self.roots == "adversary" else [self.net]
        return [None if p.grad is None else p.grad.clone() for model in models for p in model.parameters()]

    def _closure(self):
        self.optimizer_list[0].zero_grad()
        return self._part()

    def _autocast(self):
        return torch.autocast(self.device, dtype=torch.bfloat16)

    def _batch(self):
        return torch.randn(self.batch, self.length, self.width).to(self.device)

    def _part(self):
        x = self._batch()
        if self.style in ("penalty", "second"):
            x.requires_grad_()
        with self._autocast() if self.autocast and not self.one_autocast else contextlib.nullcontext():
            if self.roots == "wrapped":
                losses = self.models["wrapper"](x)
                outputs = None
            else:
                outputs = self.net(x)
                losses = self.losses(outputs)
            if self.roots == "teacher":
                with torch.no_grad():
                    target = self.teacher(x.detach())
                losses[0] = losses[0] + functional.mse_loss(outputs["results"][0].float(), target["results"][0].float())
            elif self.roots == "adversary":
                losses[0] = losses[0] - self.adversary(x.detach() + outputs["results"][0].float().mean()).float().mean()
            if self.backward_in_autocast:
                return self._backward(x, losses)
        return self._backward(x, losses)

    def _backward(self, x, losses):
        if self.style == "separate":
            for loss in losses[:-1]:
                loss.backward(retain_graph=True)
            losses[-1].backward()
            return losses[-1]
        total = sum(losses)
        if self.style == "penalty":
            (slope,) = torch.autograd.grad(total, x, create_graph=True)
            total = total + slope.square().mean()
        elif self.style == "second":
            (slope,) = torch.autograd.grad(losses[0], x, create_graph=True)
            (curvature,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
            total = total + curvature.square().mean() + slope.mean()
        elif self.style == "partial":
            weight = self.net.heads[0][1].weight
            (slope,) = torch.autograd.grad(losses[0], weight, retain_graph=True)
            total = total + slope.detach().square().mean()
        total.backward()
        return total

    def _adversary_part(self):
        self.adversary.zero_grad()
        x = self._batch()
        with torch.no_grad():
            fake = self.net(x)["results"][0].float().mean()
        (self.adversary(x).mean() - self.adversary(x + fake).mean()).backward()
