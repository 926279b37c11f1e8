# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch_headroom.apply on modules that are given caches, lists and other objects which somebody changes."""

import collections
import dataclasses
import types
import unittest
import weakref

import apply_test as base
import torch
import torch.nn as nn

from torch_headroom import PolicyError, apply


class Cache:
    """As transformers' DynamicCache: one entry a layer, that the layer makes."""

    def __init__(self):
        self.layers = []

    def update(self, index, state):
        while len(self.layers) <= index:
            self.layers.append(types.SimpleNamespace(state=None, length=0))
        layer = self.layers[index]
        layer.state = state if layer.state is None else torch.cat([layer.state, state])
        layer.length += len(state)
        return layer.state


class Layer(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.index = index
        self.linear = nn.Linear(4, 4)

    def forward(self, x, cache):
        state = cache.update(self.index, self.linear(x).exp())
        return x + state.sin().sum(0) * len(cache.layers)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(map(Layer, range(3)))

    def forward(self, x, cache=None):
        cache = cache or Cache()
        for layer in self.layers:
            x = layer(x, cache=cache)
        return x, cache


def made(outer):
    torch.manual_seed(2)
    return outer()


def gradients(net, loss_of):
    net.zero_grad()
    torch.manual_seed(3)
    loss_of(net).backward()
    return [p.grad.clone() for p in net.parameters()]


class Arguments(base.ApplyTest):
    def put_on(self, net, *names):
        document = base.policy_of(base.model(), [])
        document["modules"] = [{"fqn": f"{type(net).__name__}.{name}", "ops": []} for name in names]
        return apply(net, self.written(document))

    def equal(self, outer, loss_of, *names):
        """Gradients are those without the policy, step after step."""
        expected = gradients(made(outer), loss_of)
        net = self.put_on(made(outer), *names)
        for _ in range(3):
            for should, got in zip(expected, gradients(net, loss_of)):
                self.assertTrue(torch.equal(should, got))

    def refused(self, net, loss_of, sentence):
        with self.assertRaises(PolicyError) as caught:
            loss_of(net).backward()
        self.assertIn(sentence, str(caught.exception))
        self.assertIn("the policy was removed from the model", str(caught.exception))
        self.assertFalse([name for name, module in net.named_modules() if "forward" in module.__dict__])

    def test_a_cache_that_layers_fill(self):
        def loss_of(net):
            y, cache = net(torch.ones(2, 4))
            self.assertEqual([layer.length for layer in cache.layers], [2, 2, 2])
            loss = y.sum() + cache.layers[1].state.sum()
            loss.register_hook(lambda _: self.assertEqual([layer.length for layer in cache.layers], [2, 2, 2]))
            return loss

        self.equal(Decoder, loss_of, "layers.0", "layers.1", "layers.2")

    def test_a_cache_is_not_kept_alive(self):
        net = self.put_on(made(Decoder), "layers.0", "layers.1", "layers.2")
        for _ in range(3):
            y, cache = net(torch.ones(2, 4))
            alive = [weakref.ref(cache)] + [weakref.ref(layer.state.untyped_storage()) for layer in cache.layers]
            loss = y.sum()
            del y, cache
            self.assertEqual([ref() for ref in alive], [None] * 4)
            loss.backward()

    def test_a_cache_whose_entries_are_read(self):
        class Reader(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)

            def forward(self, x, cache):
                return self.linear(x + cache.layers[0].state).exp()

        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.decoder = Decoder()
                self.reader = Reader()

            def forward(self, x):
                y, cache = self.decoder(x)
                y = self.reader(y, cache)
                for layer in cache.layers:
                    layer.state = layer.state * 0
                return y

        self.equal(Outer, lambda net: net(torch.ones(2, 4)).sum(), "decoder.layers.0", "reader")

    def test_a_list_that_the_program_goes_on_with(self):
        class Dense(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)

            def forward(self, features):
                return self.linear(torch.stack(features).sum(0)).exp()

        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.ModuleList(Dense() for _ in range(3))

            def forward(self, x):
                features = [x]
                for inner in self.inner:
                    features.append(inner(features))
                return features.pop()

        self.equal(Outer, lambda net: net(torch.ones(2, 4)).sum(), "inner.0", "inner.1", "inner.2")

    def test_objects_of_many_kinds(self):
        @dataclasses.dataclass
        class Slotted:
            __slots__ = ("count", "tensor")
            count: int
            tensor: object

        mark = object()

        class Uses(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)

            def forward(self, x, given, generator):
                assert given["mark"] is mark and given["self"] is given
                given["ordered"].move_to_end("a")
                given["default"]["new"].append(1)
                given["deque"].append(2)
                given["set"].add(3)
                given["slotted"].count += 1
                given["space"].x = given["slotted"].tensor
                a, b = given["pair"]
                b.append(4)
                noise = torch.rand(2, 4, generator=generator)
                scale = (len(given["ordered"]) + len(given["default"]) + given["deque"][0] + len(given["set"])
                         + given["slotted"].count + len(given["names"]) + len(b))
                return self.linear(x * scale * given["space"].x + a * noise).exp()

        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Uses()

            def forward(self, x):
                pair = collections.namedtuple("Pair", "a b")(x + 1, [])
                given = {"mark": mark, "ordered": collections.OrderedDict(a=1, b=2),
                         "default": collections.defaultdict(list), "deque": collections.deque([0, 1], maxlen=2),
                         "set": {1}, "slotted": Slotted(1, x + 2), "space": types.SimpleNamespace(x=None),
                         "pair": pair, "names": frozenset(("a", "b"))}
                given["self"] = given
                generator = torch.Generator().manual_seed(5)
                first = self.inner(x, given, generator)
                return first + self.inner(x, given, generator)

        self.equal(Outer, lambda net: net(torch.ones(2, 4)).sum(), "inner")

    def test_an_argument_that_the_forward_changes_in_place(self):
        class Inner(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)

            def forward(self, x, out=None):
                if out is None:
                    x.add_(1)
                else:
                    out["sums"][0] += x.detach().sum()
                return self.linear(x).exp()

        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()

            def forward(self, x, out=None):
                return self.inner(x * 2, out).sum()

        net = self.put_on(made(Outer), "inner")
        self.refused(net, lambda net: net(torch.ones(2, 4)),
                     "module Outer.inner: the argument `x` is changed in place by the forward, so that the module "
                     "cannot run again")
        net = self.put_on(made(Outer), "inner")
        self.refused(net, lambda net: net(torch.ones(2, 4), {"sums": torch.zeros(1)}),
                     "module Outer.inner: the argument `out['sums']` is changed in place by the forward")

    def test_an_argument_that_is_changed_in_place_later(self):
        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Layer(0)

            def forward(self, x, cache):
                y = self.inner(x, cache).sum()
                cache.layers[1].state.zero_()  # the layer has not read it
                return y

        cache = Cache()
        cache.update(1, torch.ones(1, 4))
        net = self.put_on(made(Outer), "inner")
        net(torch.ones(2, 4), cache).backward()

        cache.layers[0].state = first = torch.ones(1, 4)
        loss = net(torch.ones(2, 4), cache)
        first.zero_()
        self.refused(net, lambda net: loss, "module Outer.inner: the argument `cache.layers[0].state` is changed in "
                                            "place between forward and recomputation")

    def test_arguments_that_cannot_be_had_again(self):
        class Inner(nn.Module):
            def forward(self, x, more):
                return x * next(more)

        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(2))
                self.inner = Inner()

            def forward(self, more):
                return self.inner(self.weight, more).sum()

        net = self.put_on(made(Outer), "inner")
        self.refused(net, lambda net: net(iter([1, 2])), "the argument `more` is a list_iterator and can be read only once")
        net = self.put_on(made(Outer), "inner")
        self.refused(net, lambda net: net([()] * 200_000), "the argument `more` holds more than 100,000 values")


if __name__ == "__main__":
    unittest.main()
