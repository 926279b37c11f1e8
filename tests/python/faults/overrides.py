# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects whose classes override everything that reads them, as e3nn's Irrep, which refuses len(): legal Python that a
forward never touches. Run as a script, it trains a model that holds, receives and returns such objects."""

import collections

import torch
import torch.nn as nn

_METHODS = ("__len__", "__iter__", "__getitem__", "__contains__", "__reversed__", "__bool__", "__eq__", "__repr__", "keys",
            "values", "items", "get", "copy", "__getattr__", "clone_state")


class Touched(Exception):
    """Raised where the program's own code runs though its forward does not call it."""


def refusing(base, *more):
    """A class that derives from `base` and whose own methods and properties raise Touched."""
    def refuse(*arguments, **named):
        raise Touched(f"the program's own code for a {base.__name__}")

    methods = {name: refuse for name in (*_METHODS, *more)}
    properties = {name: property(refuse) for name in ("__class__", "shape", "grad_fn", "data")}
    return type(f"Refusing{base.__name__}", (base,), methods | properties | {"__hash__": base.__hash__})


class Irrep(tuple):
    def __new__(cls, l, parity):
        return super().__new__(cls, (l, parity))

    def __len__(self):
        raise NotImplementedError


class Key:
    """A key of a dict, which only dicts hash."""

    hashes = True

    def __hash__(self):
        if not Key.hashes:
            raise Touched("the hash of a key")
        return 7


def made(tensor):
    """Values of all kinds; those that may hold others hold `tensor`."""
    ordered = refusing(collections.OrderedDict)()
    collections.OrderedDict.__setitem__(ordered, "a", tensor)
    own = refusing(object)()
    vars(own)["held"] = tensor
    slots = type("Slots", (refusing(object),), {"__slots__": ("one",)})()
    slots.one = tensor
    default = refusing(collections.defaultdict)(list, b=tensor)
    return {"irrep": Irrep(1, -1), "tuple": refusing(tuple)((tensor, 1)), "list": refusing(list)([tensor, 2]),
            "dict": refusing(dict)(a=tensor), "ordered": ordered, "default": default, "keyed": {Key(): tensor},
            "deque": refusing(collections.deque)([tensor], 3), "set": refusing(set)({1, 2}),
            "frozen": refusing(frozenset)({3}), "own": own, "slots": slots}


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        for name, value in made(torch.ones(3)).items():
            self.__dict__[f"kept_{name}"] = value  # setattr() would ask for its class

    def forward(self, x, others, *rest, **named):
        self.count = getattr(self, "count", 0) + 1
        return {**others, "x": x + self.second(torch.nn.functional.gelu(self.first(x)))}


class Net(nn.Module):
    def __init__(self, width=32, layers=3):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))

    def parameters(self, recurse=True):
        raise Touched("parameters() of the program")

    def forward(self, x, others):
        for layer in self.layers:
            others = layer(x, others, *others.values(), **{f"named_{name}": value for name, value in others.items()})
            x = others["x"]
            others = {name: value for name, value in others.items() if name != "x"}
        return x


if __name__ == "__main__":
    net = Net(256).cuda()
    optimizer = torch.optim.Adam(nn.Module.parameters(net.layers))
    while True:
        Key.hashes = True
        others = made(torch.ones(5, device="cuda"))
        Key.hashes = False
        net(torch.randn(512, 256, device="cuda"), others).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
