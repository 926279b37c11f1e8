# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch_headroom.apply on modules that store tensors, count their calls, or read the state of the process."""

import gc
import importlib.util
import random
import unittest
import weakref

import apply_test as base
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_headroom import apply

STORED = []
keep = STORED.append  # a method that is not set back, unlike a list that the forward names


class Storing(nn.Module):
    """Stores its attention map in an attribute and in a list, and keeps a mean in a buffer that it assigns."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("mean", torch.zeros(8))
        self.calls = 0
        self.map = None

    def forward(self, x):
        self.calls += 1
        self.map = F.gelu(self.first(x)).softmax(-1)
        self.mean = 0.9 * self.mean + 0.1 * self.map.detach().mean(0)
        keep(self.map.square().sum())
        return x + self.second(self.map).exp()


class Mixing(nn.Module):
    """Draws a share from a generator that is not PyTorch's."""

    def __init__(self, draw):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.draw = draw

    def forward(self, x):
        share = self.draw()
        return (share * self.linear(x)).exp() + (1 - share) * x.sin()


class Dropped(nn.Module):
    """Is dropped where `keeps` is False, as a layer of LayerDrop."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.keeps = True

    def forward(self, x):
        return x + self.linear(x).exp() if self.keeps else x


class Remembering(nn.Module):
    """Computes with what its last calls left in attributes: a state, a count, a list and a generator."""

    def __init__(self):
        super().__init__()
        self.linear, self.of_state = nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("scale", torch.ones(8))
        self.state = None
        self.calls = 0
        self.sums = []
        self.random = torch.Generator().manual_seed(7)

    def forward(self, x):
        self.calls += 1
        state = x.mean(0) if self.state is None else self.state[0]
        self.sums.append(x.detach().sum())
        x = torch.rand(8, generator=self.random) * self.linear(x).exp() + self.of_state(state).tanh()
        x = (x.sin() if self.calls % 2 else x.cos()) * self.scale + sum(self.sums)
        self.state = (x.detach()[0], self.calls)
        self.scale = self.scale + x.detach().mean()
        return x


class Recurrent(nn.Module):
    """An LSTM that goes on from the detached states of its last call, which it replaces before it reads them."""

    def __init__(self, read=True):
        super().__init__()
        self.linear, self.recurrent = nn.Linear(8, 8), nn.LSTM(8, 8)
        self.hidden, self.read = None, read

    def forward(self, x):
        if self.hidden is not None:
            self.hidden = tuple(state.detach() for state in self.hidden)
        x, self.hidden = self.recurrent(self.linear(x).exp(), self.hidden if self.read else None)
        return x


def stack(make):
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(8, 8), make(), make(), nn.Linear(8, 8))


def inputs():
    return torch.randn(5, 8, generator=torch.Generator().manual_seed(5))


def gradients(net, forward=None):
    net.zero_grad()
    STORED.clear()
    torch.manual_seed(6)
    result = (forward or net)(inputs())
    (result.square().sum() + sum(STORED)).backward()
    return [p.grad.clone() for p in net.parameters() if p.grad is not None]


class Again(base.ApplyTest):
    def put_on(self, net, *ops):
        document = base.policy_of(base.model(), [])
        document["modules"] = [{"fqn": f"Sequential.{i}",
                                "ops": [{"op": op, "index": 0, "save": False} for op in ops]} for i in (1, 2)]
        return apply(net, self.written(document))

    def assertEqualTensors(self, got, expected):
        self.assertEqual(len(got), len(expected))
        for one, other in zip(got, expected):
            self.assertTrue(torch.equal(one, other))

    def check_gradients(self, make, seed=lambda: None, forward=lambda net: net):
        """Three steps, with the policy and without."""
        found = []
        for put_on in (lambda net: net, self.put_on):
            net = put_on(stack(make))
            seed()
            found.append([gradients(net, forward(net)) for _ in range(3)])
        for expected, got in zip(*found):
            self.assertEqualTensors(got, expected)

    def test_a_stored_tensor_does_not_keep_the_recomputation_alive(self):
        net = self.put_on(stack(Storing))
        inner = []
        net[1].first.register_forward_hook(
            lambda module, args, result: inner.append(weakref.ref(result.untyped_storage())))
        for _ in range(2):
            inner.clear()
            gradients(net)
            gc.collect()
            self.assertEqual([storage() for storage in inner], [None, None])
        self.assertEqual(len(STORED), 4, "each forward ran again")

    def test_attributes_and_buffers_are_those_of_the_forward(self):
        plain, net = stack(Storing), self.put_on(stack(Storing))
        for step in (1, 2):
            results = []
            handle = net[1].second.register_forward_pre_hook(lambda module, args: results.append(args[0]))
            self.assertEqualTensors(gradients(net), gradients(plain))
            handle.remove()
            self.assertEqual(len(results), 2)
            self.assertIs(net[1].map, results[0])
            self.assertEqual(net[1].calls, step)
            self.assertTrue(torch.equal(net[1].mean, plain[1].mean))

    def test_an_attribute_that_the_recomputation_adds_is_removed(self):
        class Counted(Dropped):
            def forward(self, x):
                self.__dict__.setdefault("runs", x)
                return super().forward(x)

        net = self.put_on(stack(Counted))
        result = net(inputs())
        del net[1].runs
        result.sum().backward()
        self.assertFalse(hasattr(net[1], "runs"))

    def test_what_the_last_calls_left(self):
        self.check_gradients(Remembering)
        plain, net = stack(Remembering), self.put_on(stack(Remembering))
        for count in (1, 2, 3):
            self.assertEqualTensors(gradients(net), gradients(plain))
            for one, other in zip(net[1:3], plain[1:3]):
                self.assertEqual([one.calls, len(one.sums)], [count, count])
                self.assertTrue(torch.equal(one.state[0], other.state[0]))
                self.assertTrue(torch.equal(one.scale, other.scale))

    def test_a_state_that_is_detached_before_it_is_read(self):
        self.check_gradients(Recurrent)

    def test_a_state_that_is_detached_and_never_read(self):
        self.check_gradients(lambda: Recurrent(read=False))

    def test_a_state_that_the_program_replaces_after_the_forward(self):
        net, plain = self.put_on(stack(Remembering)), stack(Remembering)

        def forward(net):
            def call(x):
                result = net(x)
                for module in net[1:3]:
                    module.state, module.calls = (torch.zeros(8), 0), 5
                return result

            return call

        for _ in range(3):
            self.assertEqualTensors(gradients(net, forward(net)), gradients(plain, forward(plain)))

    def test_a_tensor_that_the_forward_does_not_read_is_not_held(self):
        freed = []

        class Watched(Storing):
            def forward(self, x):
                before = None if self.map is None else weakref.ref(self.map.untyped_storage())
                result = super().forward(x)
                freed.append(before is not None and before() is None)
                return result

        net = self.put_on(stack(Watched))
        for _ in range(3):
            STORED.clear()
            freed.clear()
            result = net(inputs())
            forward = list(freed)
            result.sum().backward()
        self.assertEqual(forward, [True, True])

    def test_weight_norm_of_old(self):
        def make():
            return nn.Sequential(nn.utils.weight_norm(nn.Linear(8, 8)), nn.Tanh())

        with self.assertWarns(FutureWarning):
            self.check_gradients(make)
            net = self.put_on(stack(make))
        result = net(inputs())
        weight = net[1][0].weight
        result.sum().backward()
        self.assertIs(net[1][0].weight, weight)

    def test_backward_through_a_recomputation_is_refused(self):
        net = self.put_on(stack(Storing))
        gradients(net)
        with self.assertRaisesRegex(RuntimeError, "backward through a recomputation"):
            STORED[-1].backward()

    def test_pythons_random_numbers(self):
        self.check_gradients(lambda: Mixing(random.random), lambda: random.seed(1))
        before = random.getstate()
        net = self.put_on(stack(lambda: Mixing(lambda: 0.3)))
        result = net(inputs())
        after = random.random()
        result.sum().backward()
        expected = random.random()
        random.setstate(before)
        self.assertEqual([random.random(), random.random()], [after, expected], "backward draws none")

    @unittest.skipIf(importlib.util.find_spec("numpy") is None, "this Python has no numpy")
    def test_numpys_random_numbers(self):
        import numpy

        self.check_gradients(lambda: Mixing(numpy.random.rand), lambda: numpy.random.seed(1))

    def test_kernels_of_attention(self):
        def attend(net):
            def forward(x):
                with sdpa_kernel(SDPBackend.MATH):
                    return net(x)

            return forward

        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(8, 24)

            def forward(self, x):
                q, k, v = self.linear(x).view(1, 1, 5, 24).chunk(3, -1)
                return x + F.scaled_dot_product_attention(q, k, v).view(5, 8)

        before = torch._C._get_sdp_priority_order()
        self.check_gradients(Attention, forward=attend)
        self.assertTrue(torch.backends.cuda.flash_sdp_enabled())
        self.assertEqual(torch._C._get_sdp_priority_order(), before)

    def test_the_order_of_attentions_kernels(self):
        orders = []

        class Ordered(Dropped):
            def forward(self, x):
                orders.append(torch._C._get_sdp_priority_order())
                return super().forward(x)

        net = self.put_on(stack(Ordered))
        before = torch._C._get_sdp_priority_order()
        with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
            result = net(inputs())
        result.sum().backward()
        self.assertEqual(orders, 4 * orders[:1])
        self.assertNotEqual(orders[0], before)
        self.assertEqual(torch._C._get_sdp_priority_order(), before)

    def test_a_layer_that_the_first_step_drops(self):
        net, plain = stack(Dropped), stack(Dropped)
        self.put_on(net, "aten.addmm.default", "aten.exp.default")
        optimizer = torch.optim.SGD(net.parameters(), 0.0)
        for keeps in False, True, True, False:
            net[1].keeps = plain[1].keeps = keeps
            self.assertEqualTensors(gradients(net), gradients(plain))
            optimizer.step()
        net = self.put_on(stack(Dropped), "aten.addmm.default", "aten.tanh.default")
        net[1].keeps = net[2].keeps = False
        gradients(net)
        torch.optim.SGD(net.parameters(), 0.0).step()
        net[1].keeps = True
        gradients(net)
        with self.assertRaisesRegex(base.PolicyError, "Sequential.1: aten.tanh.default never ran in the forward"):
            gradients(net)


if __name__ == "__main__":
    unittest.main()
