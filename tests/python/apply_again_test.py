# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch_headroom.apply on modules that store tensors, count their calls, or read the state of the process."""

import array
import collections
import contextvars
import functools
import gc
import importlib.util
import itertools
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

    def share(self):
        return self.draw()

    def forward(self, x):
        share = self.share()
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


def noise():
    while True:
        yield random.random() + torch.rand(()).item()


class Iterating(nn.Module):
    """Takes numbers from an iterator that a container of an attribute holds, and draws random numbers besides."""

    def __init__(self, container):
        super().__init__()
        self.linear, self.container = nn.Linear(8, 8), container

    def taken(self):
        return self.container[0]

    def forward(self, x):
        share = next(self.taken())
        return F.dropout((share * self.linear(x)).exp(), 0.2) * random.random() + (1 - share) * x.sin()


class IteratingAttribute(Iterating):
    def taken(self):
        return self.container


class Rotating(Iterating):
    """Moves the iterators around, also to another attribute."""

    def taken(self):
        self.container.append(self.container.pop(0))
        self.other = self.container[0]
        return self.other


class InASet(Iterating):
    def taken(self):
        return next(iter(self.container))


class Sending(Iterating):
    def taken(self):
        return iter([self.container[0].send(None)])


class Numbers:
    """An iterator of the program that holds another one."""

    def __init__(self):
        self.inner = {"all": [itertools.cycle([.5, .7, .9])]}

    def __next__(self):
        return next(self.inner["all"][0])


def shares():
    return itertools.cycle([.5, .7, .9])


CONTAINERS = {
    "list": (Iterating, lambda: [shares()]),
    "tuple": (Iterating, lambda: (shares(), 3)),
    "nested": (Iterating, lambda: [Numbers()]),
    "dict": (Iterating, lambda: {0: iter([.1, .2, .3, .4, .5, .6])}),
    "deque": (Iterating, lambda: collections.deque([shares()])),
    "set": (InASet, lambda: {shares()}),
    "tuple in list": (Rotating, lambda: [shares(), iter(range(9))]),
    "generator": (IteratingAttribute, noise),
    "generators in a list": (Iterating, lambda: [noise()]),
    "send": (Sending, lambda: [noise()]),
}


COUNT = 0


def count_in_a_global(module, args, result):
    global COUNT
    COUNT += 1
    return result * (1 + 0.1 * (COUNT % 5))


def count_in_a_default(module, args, result, counts=None):
    counts[0] += 1
    return result * (1 + 0.1 * (counts[0] % 5))


def hooks():
    """Makes hooks with a count: in a variable of an outer function, in default arguments, bound, and in an object."""
    count, counts = 0, {"count": 0}

    def in_a_variable(module, args, result):
        nonlocal count
        count += 1
        return result * (1 + 0.1 * (count % 5))

    def in_a_dict(module, args, result):
        counts["count"] += 1
        return result * (1 + 0.1 * (counts["count"] % 5))

    def in_a_keyword(module, args, result, *, counts=[0]):
        return count_in_a_default(module, args, result, counts)

    class Counting:
        counts = [0]

        def __init__(self):
            self.counts = [0]

        def __call__(self, module, args, result):
            return count_in_a_default(module, args, result, self.counts)

        def method(self, module, args, result):
            return self(module, args, result)

    in_a_keyword.__kwdefaults__ = {"counts": [0]}
    return {"variable": in_a_variable, "dict": in_a_dict, "keyword": in_a_keyword, "object": Counting(),
            "method": Counting().method, "partial": functools.partial(count_in_a_default, counts=[0]),
            "global": count_in_a_global}


def counted(function):
    count = 0

    def run(self):
        nonlocal count
        count += 1
        return function(self) * (1 + 0.1 * (count % 5))

    return run


SHARE = contextvars.ContextVar("share", default=0.0)


class Counter(nn.Module):
    """A module that another one holds as a plain attribute."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self):
        self.count += 1
        return 0.1 * (self.count % 5)


def with_a_state():
    """Classes of modules that count in methods, arrays, a context variable, a long list or another module, or that
    swap functions or modules."""
    class Decorated(Mixing):
        share = counted(lambda self: 0.3)

    class DefaultArgument(Mixing):
        def share(self, counts=[0]):
            counts[0] += 1
            return 0.1 * (counts[0] % 5)

    class AttributeOfAMethod(Mixing):
        def share(self):
            share = AttributeOfAMethod.share
            share.count = getattr(share, "count", 0) + 1
            return 0.1 * (share.count % 5)

    class OfAProperty(Mixing):
        counts = property(lambda self, counts=[0]: counts)

        def share(self):
            self.counts[0] += 1
            return 0.1 * (self.counts[0] % 5)

    class InAContext(Mixing):
        def share(self):
            SHARE.set((SHARE.get() + 0.1) % 0.5)
            return SHARE.get()

    class Swapping(Mixing):
        def __init__(self, draw):
            super().__init__(draw)
            self.one, self.other = torch.tanh, torch.sigmoid
            self.first, self.second = nn.Tanh(), nn.Sigmoid()

        def forward(self, x):
            self.one, self.other = self.other, self.one
            self.first, self.second = self.second, self.first
            return super().forward(self.one(x) * self.first(x))

    class OfAnother(Mixing):
        def __init__(self, draw):
            super().__init__(draw)
            self.others = [Counter()]

        def share(self):
            return self.others[0]()

    class OfTheClass(OfAnother):
        def __init__(self, draw):
            Mixing.__init__(self, draw)

        others = [Counter()]

    class InAnArray(Mixing):
        make = staticmethod(lambda: array.array("d", [0]))

        def __init__(self, draw):
            super().__init__(draw)
            self.numbers = self.make()

        def share(self):
            self.numbers[0] = (self.numbers[0] + 1) % 7
            return 0.1 * float(self.numbers[0])

    class InBytes(InAnArray):
        make = staticmethod(lambda: bytearray(1))

    class InALongList(InAnArray):
        make = staticmethod(lambda: [0] * 5000)

    found = [Decorated, DefaultArgument, AttributeOfAMethod, OfAProperty, InAContext, Swapping, OfAnother, OfTheClass,
             InAnArray, InBytes, InALongList]
    if importlib.util.find_spec("numpy") is not None:
        import numpy

        class InNumPy(InAnArray):
            make = staticmethod(lambda: numpy.zeros(3))

        class Replaced(InAnArray):
            make = staticmethod(lambda: numpy.float32(0))

            def share(self):
                self.numbers = (self.numbers + numpy.float32(1)) % 7
                return 0.1 * float(self.numbers)

        found += [InNumPy, Replaced]
    return {made.__name__: made for made in found}


def with_hook(kind, before=False):
    """A module with a hook of an inner module that counts."""
    module, hook = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)), hooks()[kind]
    if before:
        module[1].register_forward_pre_hook(lambda module, args: hook(module, args, args[0]))
    else:
        module[1].register_forward_hook(hook)
    return module


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
        note = inner.append  # a method that is not set back
        net[1].first.register_forward_hook(lambda module, args, result: note(weakref.ref(result.untyped_storage())))
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
            note = results.append  # a method that is not set back
            handle = net[1].second.register_forward_pre_hook(lambda module, args, note=note: note(args[0]))
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

    def test_iterators_in_containers(self):
        for name, (module, container) in CONTAINERS.items():
            with self.subTest(name):
                self.check_gradients(lambda: module(container()), lambda: random.seed(1))
                net = self.put_on(stack(lambda: module(container())))
                before = list(map(id, net[1].container)) if name in ("list", "tuple", "deque", "set") else None
                gradients(net)
                if before:
                    self.assertEqual(list(map(id, net[1].container)), before, "the module has its own iterators")

    def test_iterators_of_a_library(self):
        batches = torch.utils.data.DataLoader([.1, .2, .3, .4, .5, .6], collate_fn=lambda values: values[0])
        self.check_gradients(lambda: IteratingAttribute(iter(batches)), lambda: random.seed(1))

    def test_counts_of_hooks(self):
        def begin():
            global COUNT
            COUNT = 0

        for kind in hooks():
            for before in False, True:
                with self.subTest(kind, before=before):
                    self.check_gradients(lambda: with_hook(kind, before), begin)

    def test_counts_of_hooks_of_all_modules(self):
        hook = hooks()["variable"]

        def begin():
            hook.__closure__[0].cell_contents = 0

        def of_linears(module, args, result):
            return hook(module, args, result) if isinstance(module, nn.Linear) else result

        handle = nn.modules.module.register_module_forward_hook(of_linears)
        self.addCleanup(handle.remove)
        self.check_gradients(lambda: nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)), begin)

    def test_counts_of_functions_in_attributes(self):
        def begin():
            global COUNT
            COUNT = 0

        self.check_gradients(lambda: Mixing(lambda: count_in_a_global(None, None, 0.3)), begin)
        self.check_gradients(lambda: Mixing(functools.partial(count_in_a_default, None, None, 0.3, [0])))

    def test_other_states_in_python(self):
        for name in with_a_state():
            with self.subTest(name):
                # The run without the policy and the run with the policy have classes of their own, with own states.
                parts = iter([kind for kind in (with_a_state()[name], with_a_state()[name]) for _ in range(2)])
                self.check_gradients(lambda: next(parts)(lambda: 0.3), lambda: SHARE.set(0.0))

    def test_gradients_of_torch_func(self):
        """A module that takes some is refused; a module that runs where some are taken runs as without a policy."""
        class Descending(Dropped):
            def forward(self, x):
                return x - 0.1 * torch.func.grad(lambda y: self.linear(y).pow(3).sum())(x)

        with self.assertRaisesRegex(base.PolicyError, "Sequential.1: the module takes gradients with torch.func"):
            gradients(self.put_on(stack(Descending)))

        def outer(net):
            parameters = {name: parameter.detach() for name, parameter in net.named_parameters()}
            loss = lambda named: torch.func.functional_call(net, named, inputs()).exp().sum()  # noqa: E731
            return list(torch.func.grad(loss)(parameters).values())

        self.assertEqualTensors(outer(self.put_on(stack(Dropped))), outer(stack(Dropped)))

        def tangents(net):
            with torch.autograd.forward_ad.dual_level():
                result = net(torch.autograd.forward_ad.make_dual(inputs(), torch.ones_like(inputs())))
                return [torch.autograd.forward_ad.unpack_dual(result).tangent.detach()]

        self.assertEqualTensors(tangents(self.put_on(stack(Dropped))), tangents(stack(Dropped)))

    def test_what_hooks_store_is_that_of_the_forward(self):
        stored, made = {}, []
        net = self.put_on(stack(lambda: nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))))
        net[1][0].register_forward_hook(lambda module, args, result: made.append(result))
        net[1][0].register_forward_hook(lambda module, args, result: stored.update(result=result))
        for _ in range(2):
            made.clear()
            gradients(net)
            self.assertEqual(len(made), 1)
            self.assertIs(stored["result"], made[0])

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
        note = orders.append  # a method that is not set back

        class Ordered(Dropped):
            def forward(self, x):
                note(torch._C._get_sdp_priority_order())
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
