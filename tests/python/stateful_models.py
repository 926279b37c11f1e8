# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small models whose layers keep states, iterate, or change their own weights: quantization, recurrent nets, graphs,
equivariant nets, state spaces, norms of weights, implicit layers. stateful_plans_test.py plans and trains them."""

import itertools
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrizations, parametrize, prune, rnn

W = 32  # width
LAYERS = {}  # name -> function that makes a layer [batch, length, W] -> the same


def layer(make):
    LAYERS[make.__name__.removeprefix("_").lower()] = make
    return make


def mlp(width=W, wide=4):
    return nn.Sequential(nn.Linear(width, wide * width), nn.GELU(), nn.Linear(wide * width, width))


class Wide(nn.Module):
    """Adds an MLP to a layer, so that there is something to recompute."""

    def __init__(self, make):
        super().__init__()
        self.norm, self.inner, self.wide = nn.LayerNorm(W), make(), mlp()

    def forward(self, x):
        x = x + self.inner(self.norm(x))
        return x + self.wide(x)


class Net(nn.Module):
    def __init__(self, make, layers=3):
        super().__init__()
        self.layers = nn.ModuleList(Wide(make) for _ in range(layers))
        self.head = nn.Linear(W, 10)

    def forward(self, x):
        for one in self.layers:
            x = one(x)
        return self.head(x.mean(1))


# --- quantization


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x.abs() <= 127 * scale)
        return (x / scale).round().clamp(-127, 127) * scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0], None


@layer
class FakeQuantized(nn.Module):
    """A moving range, which the forward changes in place and then reads."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(W, W)
        self.register_buffer("range", torch.ones(()))

    def forward(self, x):
        y = self.linear(x)
        with torch.no_grad():
            self.range.mul_(0.9).add_(0.1 * y.abs().amax())
        return _Rounded.apply(y, self.range / 127)


@layer
class RangeAssigned(FakeQuantized):
    """The same range in an attribute that the forward assigns."""

    def forward(self, x):
        y = self.linear(x)
        self.range = 0.9 * self.range + 0.1 * y.detach().abs().amax()
        return _Rounded.apply(y, self.range / 127)


@layer
class RangeOfBefore(FakeQuantized):
    """Reads the range of the call before, then changes it."""

    def forward(self, x):
        y = _Rounded.apply(self.linear(x), self.range.clone() / 127)
        with torch.no_grad():
            self.range.lerp_(y.abs().amax(), 0.1)
        return y


@layer
class LearnedStep(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.step = nn.Linear(W, W), nn.Parameter(torch.tensor([0.05]))

    def forward(self, x):
        return torch._fake_quantize_learnable_per_tensor_affine(
            self.linear(x), self.step, torch.zeros_like(self.step), -128, 127, 1.0)


@layer
class PerChannel(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(W, W)

    def forward(self, x):
        weight = self.linear.weight
        scale = weight.detach().abs().amax(1) / 127
        zero = torch.zeros(W, dtype=torch.int32, device=x.device)
        return F.linear(x, torch.fake_quantize_per_channel_affine(weight, scale, zero, 0, -127, 127), self.linear.bias)


def _observed(observer):
    from torch.ao.quantization import FakeQuantize, FusedMovingAvgObsFakeQuantize, MovingAverageMinMaxObserver

    kind = FusedMovingAvgObsFakeQuantize if observer == "fused" else FakeQuantize
    return kind(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255)


class _Observed(nn.Module):
    def __init__(self, observer):
        super().__init__()
        self.linear, self.observer = nn.Linear(W, W), _observed(observer)

    def forward(self, x):
        return self.observer(self.linear(x))


LAYERS["torch_ao"] = lambda: _Observed("moving")
LAYERS["torch_ao_fused"] = lambda: _Observed("fused")


@layer
class Binary(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(W, W)

    def forward(self, x):
        weight = self.linear.weight
        return F.linear(x, weight + (weight.sign() * weight.abs().mean() - weight).detach(), self.linear.bias)


# --- recurrent nets


def _first(net):
    class First(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net()

        def forward(self, x):
            return self.net(x)[0]

    return First


LAYERS["lstm"] = _first(lambda: nn.LSTM(W, W, batch_first=True))
LAYERS["gru"] = _first(lambda: nn.GRU(W, W // 2, 2, batch_first=True, bidirectional=True, dropout=0.2))
LAYERS["rnn"] = _first(lambda: nn.RNN(W, W, batch_first=True, nonlinearity="relu"))
LAYERS["lstm_projected"] = _first(lambda: nn.LSTM(W, 2 * W, batch_first=True, proj_size=W))


@layer
class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(W, W)

    def forward(self, x):
        state, outputs = None, []
        for part in x.unbind(1):
            state = self.cell(part, state)
            outputs.append(state[0])
        return torch.stack(outputs, 1)


@layer
class Truncated(nn.Module):
    """Goes on from the state of the step before."""

    def __init__(self):
        super().__init__()
        self.cell, self.state = nn.GRU(W, W, batch_first=True), None

    def forward(self, x):
        y, state = self.cell(x, self.state)
        self.state = state.detach()
        return y


@layer
class Zoneout(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(W, W)

    def forward(self, x):
        state = x.new_zeros(len(x), W)
        outputs = []
        for part in x.unbind(1):
            new = self.cell(part, state)
            state = torch.where(torch.rand_like(new) < 0.1, state, new)
            outputs.append(state)
        return torch.stack(outputs, 1)


@layer
class WeightDrop(nn.Module):
    """As AWD-LSTM: another weight at each call."""

    def __init__(self):
        super().__init__()
        self.linear, self.raw = nn.Linear(W, W), nn.Parameter(torch.randn(W, W) / 6)
        del self.linear._parameters["weight"]
        self.linear.weight = None

    def forward(self, x):
        self.linear.weight = F.dropout(self.raw, 0.3, self.training)
        return self.linear(x).tanh()


@layer
class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.GRU(W, W, batch_first=True)

    def forward(self, x):
        lengths = torch.arange(x.shape[1], x.shape[1] - len(x), -1)
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return rnn.pad_packed_sequence(self.net(packed)[0], batch_first=True, total_length=x.shape[1])[0]


@layer
class ConvolutionalState(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.Conv1d(2 * W, 4 * W, 3, padding=1)

    def forward(self, x):
        x = x.transpose(1, 2)
        hidden = cell = torch.zeros_like(x)
        for _ in range(3):
            i, f, o, g = self.gates(torch.cat([x, hidden], 1)).chunk(4, 1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
        return hidden.transpose(1, 2)


# --- graphs: the positions of a sequence are nodes


class _Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.own, self.other = nn.Linear(W, W), nn.Linear(W, W)
        self.register_buffer("edges", torch.randint(0, 16, (2, 64)))

    def sent(self, x):
        return x[:, self.edges[0]]

    def added(self, x, messages):
        return torch.zeros_like(x).index_add(1, self.edges[1], messages)


@layer
class GraphConvolution(_Graph):
    def forward(self, x):
        return self.own(x) + self.added(x, self.sent(self.other(x)))


@layer
class GraphAttention(_Graph):
    def forward(self, x):
        key = self.other(x)
        score = (self.own(x)[:, self.edges[1]] * key[:, self.edges[0]]).sum(-1, keepdim=True).exp()
        whole = self.added(x[..., :1], score)
        return self.added(x, score / whole[:, self.edges[1]].clamp_min(1e-6) * self.sent(key))


@layer
class GraphInPlace(_Graph):
    def forward(self, x):
        found = self.own(x)
        found.index_add_(1, self.edges[1], self.sent(self.other(x)).relu_())
        return found


@layer
class GraphMaximum(_Graph):
    def forward(self, x):
        index = self.edges[1][None, :, None].expand(len(x), -1, W)
        found = torch.zeros_like(x).scatter_reduce(1, index, self.sent(self.other(x)), "amax", include_self=True)
        return self.own(found)


@layer
class GraphGates(_Graph):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(W, W)

    def forward(self, x):
        state = x
        for _ in range(3):
            messages = self.added(x, self.sent(self.other(state)))
            state = self.cell(messages.flatten(0, 1), state.flatten(0, 1)).view_as(x)
        return state


@layer
class GraphWithCache(_Graph):
    """Counts degrees at its first call, and keeps them."""

    def __init__(self):
        super().__init__()
        self.degrees = None

    def forward(self, x):
        if self.degrees is None:
            self.degrees = torch.zeros(x.shape[1], device=x.device).index_add(
                0, self.edges[1], torch.ones(64, device=x.device)).clamp_min(1)[:, None]
        return self.added(self.own(x), self.sent(self.other(x))) / self.degrees


# --- equivariant nets


class Irrep(tuple):
    """As e3nn's: a tuple that refuses len()."""

    def __new__(cls, l, parity):
        return super().__new__(cls, (l, parity))

    def __len__(self):
        raise NotImplementedError

    @property
    def dim(self):
        return 2 * self[0] + 1


@layer
class TensorProduct(nn.Module):
    def __init__(self):
        super().__init__()
        self.irreps = [(8, Irrep(0, 1)), (8, Irrep(1, -1))]
        self.weight = nn.Parameter(torch.randn(8, 8, 8) / 8)
        self.register_buffer("coupling", torch.randn(3, 3, 3))

    def forward(self, x):
        count, irrep = self.irreps[1]
        scalars, vectors = x[..., :8], x[..., 8:].unflatten(-1, (count, irrep.dim))
        vectors = torch.einsum("btui,btvj,ijk,uvw->btwk", vectors, vectors, self.coupling, self.weight)
        return torch.cat([F.silu(scalars), (vectors * scalars.sigmoid()[..., None]).flatten(-2)], -1)


@layer
class Generated(nn.Module):
    """Code that torch.fx makes."""

    def __init__(self):
        super().__init__()
        graph = torch.fx.Graph()
        x, weight = graph.placeholder("x"), graph.get_attr("weight")
        found = graph.call_function(torch.einsum, ("btu,uv->btv", x, weight))
        graph.output(graph.call_function(torch.nn.functional.silu, (graph.call_function(torch.mul, (found, x)),)))
        self.made = torch.fx.GraphModule({"weight": nn.Parameter(torch.randn(W, W) / 6)}, graph)

    def forward(self, x):
        return self.made(x)


@torch.jit.script
def _harmonics(x):
    return torch.cat([x, x[..., :1] * x[..., 1:2], x[..., 1:] * 2.0], -1)[..., :32]


@layer
class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(W, W)

    def forward(self, x):
        return self.linear(_harmonics(x)).sin()


@layer
class Forces(nn.Module):
    """Takes a gradient inside of its forward."""

    def __init__(self):
        super().__init__()
        self.energy = mlp()

    def forward(self, x):
        place = x if x.requires_grad else x.requires_grad_()
        return torch.autograd.grad(self.energy(place).square().sum(), place, create_graph=True)[0].tanh()


# --- state spaces


@layer
class SelectiveScan(nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.decay = nn.Linear(W, 2 * W + 8), nn.Parameter(-torch.rand(W, 4))

    def forward(self, x):
        u, step, b, c = self.project(x).split([W, W, 4, 4], -1)
        step = F.softplus(step)
        state = x.new_zeros(len(x), W, 4)
        outputs = []
        for t in range(x.shape[1]):
            state = (step[:, t, :, None] * self.decay).exp() * state + (step[:, t] * u[:, t])[..., None] * b[:, t, None]
            outputs.append((state * c[:, t, None]).sum(-1))
        return torch.stack(outputs, 1)


@layer
class CumulativeScan(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.value = nn.Linear(W, W), nn.Linear(W, W)

    def forward(self, x):
        decay = F.logsigmoid(self.gate(x)).cumsum(1)
        return (decay + torch.logcumsumexp(self.value(x) - decay, 1)).tanh()


@layer
class LongConvolution(nn.Module):
    """By FFT, with complex parameters, as S4."""

    def __init__(self):
        super().__init__()
        self.log, self.c = nn.Parameter(torch.randn(W, 4, dtype=torch.cfloat) / 4), nn.Parameter(
            torch.randn(W, 4, dtype=torch.cfloat))

    def forward(self, x):
        length = x.shape[1]
        powers = torch.arange(length, device=x.device) * -self.log.exp()[..., None]
        kernel = (self.c[..., None] * powers.exp()).sum(1).real
        kernel, x = (torch.fft.rfft(part, 2 * length) for part in (kernel, x.transpose(1, 2)))
        return torch.fft.irfft(kernel * x, 2 * length)[..., :length].transpose(1, 2).tanh()


@layer
class LinearAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.decay = nn.Linear(W, 3 * W), nn.Parameter(torch.rand(W))

    def forward(self, x):
        query, key, value = self.qkv(x).chunk(3, -1)
        state, outputs = 0, []
        for t in range(x.shape[1]):
            state = state * self.decay.sigmoid()[:, None] + key[:, t, :, None] * value[:, t, None]
            outputs.append((query[:, t, :, None] * state).sum(1))
        return torch.stack(outputs, 1).tanh()


@layer
class DoublingScan(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.value = nn.Linear(W, W), nn.Linear(W, W)

    def forward(self, x):
        a, b = self.gate(x).sigmoid(), self.value(x)
        shift = 1
        while shift < x.shape[1]:
            b = b + a * F.pad(b[:, :-shift], (0, 0, shift, 0))
            a = a * F.pad(a[:, :-shift], (0, 0, shift, 0), value=1.0)
            shift *= 2
        return b.tanh()


@layer
class CarriedState(nn.Module):
    """A state in a buffer that the forward changes in place."""

    def __init__(self):
        super().__init__()
        self.mix, self.register = nn.Linear(W, W), None
        self.register_buffer("state", torch.zeros(W))

    def forward(self, x):
        y = (self.mix(x) + self.state).tanh()
        with torch.no_grad():
            self.state.copy_(y.mean((0, 1)))
        return y


# --- norms of weights and parametrizations

LAYERS["spectral_norm"] = lambda: nn.Sequential(nn.utils.spectral_norm(nn.Linear(W, W)), nn.Tanh())
LAYERS["spectral_parametrization"] = lambda: nn.Sequential(parametrizations.spectral_norm(nn.Linear(W, W)), nn.Tanh())
LAYERS["weight_norm"] = lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(W, W)), nn.Tanh())
LAYERS["weight_parametrization"] = lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(W, W)), nn.Tanh())
LAYERS["orthogonal"] = lambda: nn.Sequential(
    parametrizations.orthogonal(nn.Linear(W, W), orthogonal_map="cayley"), nn.Tanh())
LAYERS["pruned"] = lambda: nn.Sequential(prune.l1_unstructured(nn.Linear(W, W), "weight", 0.5), nn.Tanh())


class _Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).t()


@layer
class Symmetric(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(W, W)
        parametrize.register_parametrization(self.linear, "weight", _Symmetric())

    def forward(self, x):
        with parametrize.cached():
            return self.linear(self.linear(x).tanh())


@layer
class Standardized(nn.Conv1d):
    def __init__(self):
        super().__init__(W, W, 3, padding=1)

    def forward(self, x):
        weight = self.weight
        weight = (weight - weight.mean((1, 2), keepdim=True)) / weight.std((1, 2), keepdim=True)
        return F.conv1d(x.transpose(1, 2), weight, self.bias, padding=1).transpose(1, 2)


@layer
class BatchNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(W), nn.Linear(W, W)

    def forward(self, x):
        return self.linear(self.norm(x.transpose(1, 2)).transpose(1, 2)).relu()


@layer
class Renormalized(nn.Module):
    """Divides by the mean that it has just changed, as batch renormalization."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(W, W)
        self.register_buffer("deviation", torch.ones(W))

    def forward(self, x):
        y = self.linear(x)
        with torch.no_grad():
            self.deviation += 0.1 * (y.std((0, 1)) - self.deviation)
        return y / self.deviation


# --- implicit layers


class _Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.z, self.x = nn.Linear(W, W), nn.Linear(W, W)

    def forward(self, z, x):
        return (0.5 * self.z(z) + self.x(x)).tanh()


@layer
class OneStepImplicit(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = _Cell()

    def forward(self, x):
        z = torch.zeros_like(x)
        with torch.no_grad():
            for _ in range(5):
                z = self.cell(z, x)
        return self.cell(z, x)


@layer
class HookedImplicit(OneStepImplicit):
    """Solves for the gradient in a hook, by gradients inside of the backward pass."""

    def forward(self, x):
        z = super().forward(x)
        if not z.requires_grad:
            return z
        again = z.detach().requires_grad_()
        image = self.cell(again, x.detach())

        def solve(gradient):
            found = gradient
            for _ in range(4):
                found = torch.autograd.grad(image, again, found, retain_graph=True)[0] + gradient
            return found

        z.register_hook(solve)
        return z


class _Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        z = x.clone()
        for _ in range(4):
            z = z - (z * z * z + z - x) / (3 * z * z + 1)
        ctx.save_for_backward(z)
        return z

    @staticmethod
    def backward(ctx, gradient):
        (z,) = ctx.saved_tensors
        return gradient / (3 * z * z + 1)


@layer
class RootImplicit(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(W, W)

    def forward(self, x):
        return _Root.apply(self.linear(x))


@layer
class ImplicitByAutograd(nn.Module):
    """A Function whose backward runs a module under gradients."""

    def __init__(self):
        super().__init__()
        self.cell = _Cell()

    def forward(self, x):
        cell = self.cell

        class Again(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, *parameters):
                ctx.save_for_backward(x)
                with torch.no_grad():
                    return cell(x, x)

            @staticmethod
            def backward(ctx, gradient):
                x = ctx.saved_tensors[0].detach().requires_grad_()
                with torch.enable_grad():
                    y = cell(x, x)
                return torch.autograd.grad(y, (x, *cell.parameters()), gradient)

        return Again.apply(x, *cell.parameters())


@layer
class NeuralODE(nn.Module):
    def __init__(self):
        super().__init__()
        self.field = mlp(wide=2)

    def forward(self, x):
        for _ in range(2):
            a = self.field(x)
            b = self.field(x + 0.05 * a)
            c = self.field(x + 0.05 * b)
            x = x + 0.1 / 6 * (a + 2 * b + 2 * c + self.field(x + 0.1 * c))
        return x


@layer
class ConjugateGradients(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.randn(W, W) / 16)

    def forward(self, x):
        matrix = self.factor @ self.factor.t() + torch.eye(W, device=x.device)
        found, rest = torch.zeros_like(x), x
        way, size = rest, (rest * rest).sum(-1, keepdim=True)
        for _ in range(4):
            image = way @ matrix
            step = size / (way * image).sum(-1, keepdim=True)
            found, rest = found + step * way, rest - step * image
            new = (rest * rest).sum(-1, keepdim=True)
            way, size = rest + new / size * way, new
        return found


@layer
class Sinkhorn(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(W, 16)

    def forward(self, x):
        plan = self.score(x)
        for _ in range(5):
            plan = plan - plan.logsumexp(1, keepdim=True)
            plan = plan - plan.logsumexp(2, keepdim=True)
        return plan.exp().transpose(1, 2) @ x


# --- what else keeps a state


@layer
class Codebook(nn.Module):
    """As VQ-VAE: an average in place of the vectors that it has just read."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(W, W)
        self.register_buffer("vectors", torch.randn(16, W))

    def forward(self, x):
        y = self.linear(x)
        nearest = torch.cdist(y.flatten(0, 1), self.vectors).argmin(-1).view(x.shape[:2])
        found = F.embedding(nearest, self.vectors)
        if self.training:
            with torch.no_grad():
                self.vectors.index_add_(0, nearest.flatten(), 0.01 * (y - found).flatten(0, 1))
        return y + (found - y).detach() + 0.1 * (y - found.detach())


@layer
class MomentumTeacher(nn.Module):
    """As BYOL: the teacher's weights follow the student's."""

    def __init__(self):
        super().__init__()
        self.student, self.teacher = mlp(), mlp().requires_grad_(False)

    def forward(self, x):
        with torch.no_grad():
            for slow, fast in zip(self.teacher.parameters(), self.student.parameters()):
                slow.lerp_(fast, 0.01)
        return self.student(x) * self.teacher(x).sigmoid()


@layer
class Queue(nn.Module):
    """As MoCo: compares with a queue, then writes into it."""

    def __init__(self):
        super().__init__()
        self.linear, self.place = nn.Linear(W, W), 0
        self.register_buffer("queue", torch.randn(64, W))

    def forward(self, x):
        y = self.linear(x)
        close = (y @ self.queue.clone().t()).softmax(-1) @ self.queue.clone()
        with torch.no_grad():
            self.queue[self.place : self.place + len(x)] = y.mean(1)
        self.place = (self.place + len(x)) % 64
        return y + close


@layer
class OwnGenerator(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.generator = mlp(), random.Random(3)

    def forward(self, x):
        return self.linear(x) * self.generator.uniform(0.5, 1.5) * random.uniform(0.9, 1.1)


@layer
class Gumbel(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.table = nn.Linear(W, 16), nn.Parameter(torch.randn(16, W))

    def forward(self, x):
        return F.gumbel_softmax(self.linear(x), hard=True) @ self.table


@layer
class Warmup(nn.Module):
    """Computes otherwise from its third call on."""

    def __init__(self):
        super().__init__()
        self.linear, self.calls = mlp(), 0

    def forward(self, x):
        self.calls += 1
        return self.linear(x) * min(1.0, self.calls / 3)


class _Scaled(nn.Module):
    """Scales what the backward pass needs by a number that changes from call to call."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(W, 4 * W), nn.Linear(4 * W, W)

    def forward(self, x):
        return self.down(F.gelu(self.up(x) * self.scale()))


class _Schedule:
    """A state in a plain object, with and without a dict of attributes."""

    __slots__ = ("scale", "__dict__")

    def __init__(self):
        self.scale, self.calls, self.seen = 1.0, 0, []

    def next(self):
        self.calls += 1
        self.scale *= 0.9
        self.seen.append(self.calls)
        return self.scale + 0.1 * self.calls + 0.01 * sum(self.seen)

@layer
class CountInAnObject(_Scaled):
    def __init__(self):
        super().__init__()
        self.schedules = {"one": _Schedule()}

    def scale(self):
        return self.schedules["one"].next()


@layer
class CountOfTheClass(_Scaled):
    def __init__(self):
        super().__init__()
        self.__class__ = type("CountOfTheClass", (CountOfTheClass,), {"calls": 0, "scales": [1.0]})

    def scale(self):
        type(self).calls += 1
        self.scales.append(self.scales[-1] * 0.9)
        return self.scales[-1] + 0.1 * self.calls


@layer
class DrawsFromIterators(_Scaled):
    def __init__(self):
        super().__init__()
        self.scales = itertools.cycle((0.5, 0.7, 1.1, 1.3, 0.9))
        self.more = (1.0 / (1 + place % 7) for place in itertools.count())

    def scale(self):
        return next(self.scales) + sum(itertools.islice(self.more, 2))


_SEEN = []  # as losses of layers, which a program gathers and clears before backward


@layer
class CountOfTheFile(_Scaled):
    def scale(self):
        _SEEN.append(0.3)
        found = 1 + sum(_SEEN)
        if len(_SEEN) == 3:
            _SEEN.clear()
        return found


@layer
class CountsInFunctions(_Scaled):
    """Counts in a closure and in a default argument."""

    def __init__(self):
        super().__init__()
        calls = 0

        def scale(seen=[0]):  # noqa: B006
            nonlocal calls
            calls += 1
            seen[0] += 1
            return 1 + 0.1 * calls + 0.05 * seen[0]

        self.scale = scale
