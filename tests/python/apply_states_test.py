# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that read and change a state of their own: running averages, ranges, counters, power iterations. A plan that
recomputes one gives the gradients of the plain step to the bit, or is refused by name.

    apply_states_test.py HEADROOM
"""

import copy
import functools
import gc
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import support

torch = support.simulated("a100-80gb")

import torch_headroom  # noqa: E402
from torch import nn  # noqa: E402
from torch.ao.quantization import FusedMovingAvgObsFakeQuantize, default_fake_quant  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.nn.modules import module as module_hooks  # noqa: E402
from torch.nn.utils import parametrizations, parametrize, spectral_norm  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_headroom._apply.recompute import _UPDATING_STATISTICS, uses_of  # noqa: E402

HEADROOM = sys.argv.pop()
WIDTH, ROWS, STEPS = 16, 64, 3
CALLS = [0]


@torch.library.custom_op("states_test::scaled", mutates_args=("largest",))
def scaled(x: torch.Tensor, largest: torch.Tensor) -> torch.Tensor:
    largest.mul_(0.9).add_(x.abs().max(), alpha=0.1)
    return x / largest


@scaled.register_fake
def _(x, largest):
    return torch.empty_like(x)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, largest):
        y = scaled(x, largest)
        ctx.save_for_backward(y, largest.clone())
        return y

    @staticmethod
    def backward(ctx, gradient):
        y, largest = ctx.saved_tensors
        return gradient * torch.cos(y) / largest, None


class Part(nn.Module):
    """A block with a state of its own; `other` is that of another block."""

    other = None

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.add_state()

    def add_state(self):
        self.register_buffer("mean", torch.zeros(4 * WIDTH))

    def forward(self, x):
        return x + self.second(torch.tanh(self.inner(self.first(x))))


class BatchNorm(Part):
    def add_state(self):
        self.norm = nn.BatchNorm1d(4 * WIDTH)

    def inner(self, x):
        return self.norm(x)


class Count(Part):
    """A count that nothing reads, as of BatchNorm's batches."""

    def inner(self, x):
        self.mean.add_(1)
        return x


class FakeQuantize(Part):
    def add_state(self):
        self.quantize = FusedMovingAvgObsFakeQuantize()

    def inner(self, x):
        return self.quantize(x)


class FakeQuantizeInParts(FakeQuantize):
    def add_state(self):
        self.quantize = default_fake_quant()


class SpectralNorm(Part):
    def add_state(self):
        self.first = parametrizations.spectral_norm(self.first)

    def inner(self, x):
        return x


class OldSpectralNorm(SpectralNorm):
    def add_state(self):
        self.first = spectral_norm(self.first)


class MeanThenUse(Part):
    def inner(self, x):
        self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return x - self.mean


class UseThenMean(Part):
    def inner(self, x):
        y = x * (1 + self.mean)
        self.mean.lerp_(x.detach().mean(0), 0.1)
        return y


class Codebook(Part):
    """A codebook with moving averages, as of VQ-VAE."""

    def add_state(self):
        generator = torch.Generator().manual_seed(5)
        for name, shape in (("codes", (8, 4 * WIDTH)), ("sums", (8, 4 * WIDTH)), ("sizes", (8,))):
            self.register_buffer(name, torch.rand(shape, generator=generator))

    def inner(self, x):
        nearest = torch.cdist(x, self.codes).argmin(-1)
        chosen = F.one_hot(nearest, 8).to(x.dtype)
        with torch.no_grad():
            self.sizes.mul_(0.9).add_(chosen.sum(0), alpha=0.1)
            self.sums.mul_(0.9).add_(chosen.t() @ x, alpha=0.1)
            self.codes.copy_(self.sums / (self.sizes + 1e-3).unsqueeze(1))
        return x + (F.embedding(nearest, self.codes) - x).detach() * x


class Warmup(Part):
    """A count that the next line uses."""

    def inner(self, x):
        self.mean.add_(1)
        return x * (self.mean / (self.mean + 10))


class OwnOp(Part):
    def add_state(self):
        self.register_buffer("largest", torch.ones(()))

    def inner(self, x):
        return Scaled.apply(x, self.largest)


class ReadsItsStatistics(BatchNorm):
    def inner(self, x):
        return self.norm(x) * (1 + self.norm.running_mean)


class CountForAnother(Part):
    """Its count scales what the block before it does, in the next step."""

    def inner(self, x):
        self.mean.add_(1)
        return x if self.other is None else x * (1 + self.other.mean)


class StatisticsForAnother(BatchNorm):
    def inner(self, x):
        return self.norm(x if self.other is None else x * (1 + self.other.norm.running_mean))


class InstanceNorm(Part):
    def add_state(self):
        self.norm = nn.InstanceNorm1d(4, track_running_stats=True)

    def inner(self, x):
        return self.norm(x.view(-1, 4, WIDTH)).view_as(x)


class CumulativeNorm(BatchNorm):
    def add_state(self):
        self.norm = nn.BatchNorm1d(4 * WIDTH, momentum=None)


class EvaluatedNorm(BatchNorm):
    """Normalised by its running statistics after it has updated them."""

    def inner(self, x):
        self.norm(x.detach())
        return F.batch_norm(x, self.norm.running_mean, self.norm.running_var, self.norm.weight, self.norm.bias)


class CountOnTheCpu(Part):
    def add_state(self):
        self.calls = torch.zeros((), dtype=torch.int64)

    def inner(self, x):
        self.calls += 1
        return x / int(self.calls)


class OwnGenerators(Part):
    """Draws from generators of Python and, if at hand, NumPy."""

    def add_state(self):
        self.generators = [random.Random(3)]
        try:
            import numpy
        except ImportError:
            return
        self.generators += [numpy.random.default_rng(1), numpy.random.RandomState(2)]

    def inner(self, x):
        for generator in self.generators:
            x = torch.sin(x * generator.uniform(0.5, 1.5))
        return x


class Counted(torch.autograd.Function):
    """Counts calls in a global variable, which the code of no module names."""

    @staticmethod
    def forward(ctx, x):
        CALLS[0] += 1
        ctx.factor = CALLS[0]
        return x * ctx.factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor


class CountedCalls(Part):
    def inner(self, x):
        return Counted.apply(x)


class DataReplaced(Count):
    def forward(self, x):
        self.first.weight.data = self.first.weight.data * 0.9
        return super().forward(x)


class WeightNorm(SpectralNorm):
    def add_state(self):
        self.first = parametrizations.weight_norm(self.first)


PLANNED = (BatchNorm, Count, OwnGenerators)
REFUSED = {
    FakeQuantize: "an op of the module computes with a state that the op itself changes",
    OwnOp: "an op of the module computes with a state that the op itself changes",
    CountForAnother: "the module changes a tensor in place that the step reads elsewhere",
    StatisticsForAnother: "the module changes a tensor in place that the step reads elsewhere",
    **dict.fromkeys((FakeQuantizeInParts, SpectralNorm, OldSpectralNorm, MeanThenUse, UseThenMean, Codebook, Warmup,
                     ReadsItsStatistics, EvaluatedNorm), "the module reads a tensor that is changed in place"),
}
EQUAL_BUT_REFUSED = (InstanceNorm, CumulativeNorm)  # they read a state to update it, which no op's schema tells


class Net(nn.Module):
    def __init__(self, part):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(part() for _ in range(2))
        self.head = nn.Linear(WIDTH, 1)
        self.blocks[0].__dict__["other"] = self.blocks[1]
        self.checkpointed = False

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(x)


def step(net, optimizer, device):
    loss = net(torch.randn(ROWS, WIDTH).to(device)).square().mean()
    loss.backward()
    gradients = [parameter.grad.clone() for parameter in net.parameters()]
    optimizer.step()
    optimizer.zero_grad()
    return gradients


def steps(net):
    """The gradients of some steps on the CPU, where values are real."""
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    return [gradient for _ in range(STEPS) for gradient in step(net, optimizer, "cpu")]


def equal(expected, got):
    return all(map(torch.equal, expected, got))


class States(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.step, self.policy = (pathlib.Path(folder.name) / name for name in ("step.hrs", "policy.json"))

    def plan(self, part):
        """What `plan` says to a recomputation of the last block; empty: it has written a policy."""
        gc.collect()
        # A name of its own, as nets of other parts may be alive; with these, the step has several models.
        net = type(f"{part.__name__}Net", (Net,), {})(part).cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with torch_headroom.record(self.step) as recording:
            for _ in range(2):
                step(net, optimizer, "cuda")
                recording.step()
        for models in "", "models.":
            planned = subprocess.run([HEADROOM, "plan", self.step, "--budget", "1GiB", "-o", self.policy,
                                      "--pin", f"{models}{type(net).__name__}.blocks.1=recompute"],
                                     capture_output=True, text=True)
            if "no module of that name" not in planned.stderr:
                break
        return planned.stderr

    def own_policy(self):
        """A policy for the CPU, whose kernels have other names, that recomputes both blocks."""
        modules = [{"fqn": f"Net.blocks.{i}", "discard_ratio": 1, "ops": []} for i in range(2)]
        self.policy.write_text(json.dumps({"headroom_policy": 1, "model": "test", "modules": modules}))
        return self.policy

    def test_planned_with_equal_gradients(self):
        for part in PLANNED:
            with self.subTest(part=part.__name__):
                self.assertEqual(self.plan(part), "")
                self.check_equal(part)

    def check_equal(self, part):
        net = Net(part)
        expected = steps(copy.deepcopy(net))
        self.assertTrue(equal(expected, steps(torch_headroom.apply(net, self.own_policy()))))

    def test_batch_normalisation_updates_its_statistics_once(self):
        """Also if a recomputation ends early, or runs twice for a retained graph."""
        def trained(net):
            torch.manual_seed(1)
            for _ in range(STEPS):
                loss = net(torch.randn(ROWS, WIDTH)).square().mean()
                loss.backward(retain_graph=True)
                loss.backward()
            return dict(net.named_buffers())

        net = Net(BatchNorm)
        expected = trained(copy.deepcopy(net))
        got = trained(torch_headroom.apply(net, self.own_policy()))
        self.assertEqual(got.keys(), expected.keys())
        for name, buffer in expected.items():
            self.assertTrue(torch.equal(buffer, got[name]), name)
        self.assertEqual({block.norm.momentum for block in net.blocks}, {0.1})

    def test_a_second_update_of_compiled_batch_normalisation_is_no_silent_one(self):
        net = Net(BatchNorm)
        for block in net.blocks:
            block.norm = torch.compile(block.norm, backend="eager")
        torch_headroom.apply(net, self.own_policy())
        with self.assertWarnsRegex(UserWarning, "Net.blocks.1: .*BatchNorm a second time.* --pin Net.blocks.1=save"):
            net(torch.randn(ROWS, WIDTH)).sum().backward()

    def test_refused_and_rightly_so(self):
        """`plan` names the module; a checkpoint gives other gradients; and `apply` refuses a policy that is made up."""
        for part, reason in REFUSED.items():
            with self.subTest(part=part.__name__):
                self.assertIn(reason, self.plan(part))
                self.check_apply(part)

    def check_apply(self, part):
        net, checkpointed = Net(part), Net(part)
        checkpointed.checkpointed = True
        expected = steps(copy.deepcopy(net))
        self.assertTrue(equal(expected, steps(copy.deepcopy(net))), "the test is not deterministic")
        self.assertFalse(equal(expected, steps(checkpointed)))
        if part not in (CountForAnother, StatisticsForAnother):  # one module alone does not show it
            with self.assertRaisesRegex(torch_headroom.PolicyError, "changed in place"):
                steps(torch_headroom.apply(net, self.own_policy()))

    def test_refused_though_equal(self):
        for part in EQUAL_BUT_REFUSED:
            with self.subTest(part=part.__name__):
                self.assertIn("changed in place", self.plan(part))

    def check_loss(self, loss_of, part=Count):
        """Checks the gradients of two steps with a loss that reads parameters in another way than a plain call."""
        def gradients(net):
            torch.manual_seed(1)
            optimizer, made = torch.optim.SGD(net.parameters(), lr=0.1), []
            for _ in range(2):
                loss_of(net, torch.randn(ROWS, WIDTH))
                made += [parameter.grad.clone() for parameter in net.parameters() if parameter.grad is not None]
                optimizer.step()
                optimizer.zero_grad()
            return made

        net = Net(part)
        expected = gradients(copy.deepcopy(net))
        self.assertTrue(equal(expected, gradients(torch_headroom.apply(net, self.own_policy()))))

    def test_a_call_with_other_parameters(self):
        def loss(net, x):
            names = {name: parameter * 0.8 for name, parameter in net.named_parameters()}
            torch.func.functional_call(net, names, (x,)).square().mean().backward()

        self.check_loss(loss)

    def test_a_call_with_the_parameters_of_another_model(self):
        other = Net(Count)

        def loss(net, x):
            names = {name: parameter for name, parameter in other.named_parameters()}
            (torch.func.functional_call(net, names, (x,)).square().mean() + net(x).square().mean()).backward()

        self.check_loss(loss)
        self.assertTrue(all(parameter.grad is not None for parameter in other.parameters()))

    def test_parameters_that_are_frozen_in_the_forward_alone(self):
        def loss(net, x):
            x.requires_grad_()
            for parameter in net.blocks[1].parameters():
                parameter.requires_grad_(False)
            found = net(x).square().mean()
            for parameter in net.blocks[1].parameters():
                parameter.requires_grad_(True)
            found.backward()
            self.assertTrue(all(parameter.requires_grad for parameter in net.parameters()))

        self.check_loss(loss)

    def test_hooks_that_are_there_in_the_forward_alone(self):
        for every in False, True:
            def loss(net, x):
                def hook(module, arguments, named, result):
                    return result * 1.5 if isinstance(module, nn.Linear) else None

                register = functools.partial(module_hooks.register_module_forward_hook, with_kwargs=True)
                handles = [register(hook)] if every else [
                    block.first.register_forward_hook(hook, with_kwargs=True) for block in net.blocks]
                found = net(x).square().mean()
                for handle in handles:
                    handle.remove()
                later = [block.first.register_forward_pre_hook(lambda *_: self.fail("a hook of later"))
                         for block in net.blocks]
                found.backward()
                for block, handle in zip(net.blocks, later):
                    self.assertFalse(block.first._forward_hooks)
                    self.assertIn(handle.id, block.first._forward_pre_hooks)
                    handle.remove()

            with self.subTest(every=every):
                self.check_loss(loss)

    def test_a_global_variable_of_a_function_with_a_backward_of_its_own(self):
        def loss(net, x):
            CALLS[0] = 0
            net(x).square().mean().backward()
            self.assertEqual(CALLS[0], 2)

        self.check_loss(loss, CountedCalls)

    def test_cached_weights_of_parametrizations(self):
        def inside(net, x):
            with parametrize.cached():
                (net(x).square().mean() + net(2 * x).mean()).backward()

        def outside(net, x):
            with parametrize.cached():
                found = net(x).square().mean() + net(2 * x).mean()
            found.backward()

        self.check_loss(inside, WeightNorm)
        self.check_loss(outside, WeightNorm)

    def test_parameters_that_get_other_data(self):
        self.assertIn("a tensor that the program replaces before backward", self.plan(DataReplaced))
        with self.assertRaisesRegex(torch_headroom.PolicyError, "`weight` is replaced by the forward"):
            steps(torch_headroom.apply(Net(DataReplaced), self.own_policy()))

        def loss(net, x):
            found, weight = net(x).square().mean(), net.blocks[0].first.weight
            weight.data = weight.data / 2
            found.backward()

        with self.assertRaisesRegex(torch_headroom.PolicyError, "`weight` is replaced between forward and"):
            self.check_loss(loss)

    def test_a_state_on_the_cpu(self):
        """The recording of a step on the card has no ops on the CPU, so that only `apply` sees it."""
        net = Net(CountOnTheCpu)
        with self.assertRaisesRegex(torch_headroom.PolicyError, "`calls`, and that is changed in place"):
            steps(torch_headroom.apply(net, self.own_policy()))


class Schemas(unittest.TestCase):
    """The ops that change an argument and have another result, too, as their schemas say."""

    def test_batch_normalisation_does_not_depend_on_its_statistics(self):
        """Each op that is taken for independent of the statistics it updates is run twice, with other statistics."""
        x, ones, counts = torch.randn(8, 3, 4), torch.ones(3), torch.tensor([8.0])
        ran = []
        for name in sorted(_UPDATING_STATISTICS):
            op = getattr(torch.ops.aten, name).default

            def call(mean, var):
                values = {"input": x, "weight": ones, "bias": ones, "running_mean": mean, "running_var": var, "training": True,
                          "momentum": 0.1, "exponential_average_factor": 0.1, "eps": 1e-5, "epsilon": 1e-5,
                          "mean": ones[None], "invstd": ones[None], "count": 8, "counts": counts}
                return op(*(values[argument.name] for argument in op._schema.arguments))

            try:
                first = call(torch.zeros(3), torch.ones(3))
            except (NotImplementedError, RuntimeError):  # only on a card
                continue
            for one, other in zip(first, call(torch.full((3,), 5.0), torch.full((3,), 7.0))):
                self.assertTrue(torch.equal(one, other), name)
            ran.append(name)
        self.assertLessEqual({"native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update",
                              "batch_norm_update_stats"}, set(ran))

    def test_a_fake_quantization_does(self):
        op = torch.ops.aten._fused_moving_avg_obs_fq_helper.default
        x = torch.linspace(-1, 1, 16)

        def call(low, high):
            on, state = torch.ones(1, dtype=torch.int64), (torch.tensor([low]), torch.tensor([high]))
            return op(x, on, on, *state, torch.ones(1), torch.zeros(1, dtype=torch.int32), 0.1, 0, 255, 0)

        self.assertFalse(torch.equal(call(-0.5, 0.5)[0], call(-4.0, 4.0)[0]))
        arguments = [x] * len(op._schema.arguments)
        self.assertEqual([len(part) for part in uses_of(op, arguments, {})], [len(arguments), 4])

    def test_the_lists_are_equal(self):
        source = pathlib.Path(__file__).parents[2] / "core" / "trace" / "graph_ops.cpp"
        listed = source.read_text().split("updatingOps")[1].split(")")[0]
        self.assertEqual({word.strip(' \n{"') for word in listed.split('"')[1::2]}, _UPDATING_STATISTICS)

    def test_views_and_updates_are_no_reads(self):
        mean, x = torch.zeros(3), torch.ones(3)
        for op, args, expected in ((torch.ops.aten.view.default, (mean, [3]), 0), (torch.ops.aten.add_.Tensor, (mean, x), 1),
                                   (torch.ops.aten.copy_.default, (mean, x), 1), (torch.ops.aten.mul.Tensor, (mean, x), 2)):
            read, _ = uses_of(op, args, {})
            self.assertEqual(sum(isinstance(value, torch.Tensor) for value in read), expected, op)


if __name__ == "__main__":
    unittest.main()
