# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The attributes and buffers of a region's modules, kept as they were at the call: a forward may replace them (a state
from call to call, a count, a list to which it appends), and its recomputation begins with those of the call.

Tensors, numbers, strings, random number generators and containers of these are kept; other objects and parameters are
not. A tensor is held only if the region reads it. All tensors of an attribute have one path.
"""

import contextlib
import enum
import weakref

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from . import _copies
from ._containers import attributes_of, is_a
from ._copies import Held, Unrepeatable, built, kind_of, stand_in

_MOST = 1000  # largest number of values in an attribute that is kept
_OF_MODULES = frozenset(vars(torch.nn.Module())) - {"training"} | {"forward"}
_IMMUTABLE = frozenset((bool, int, float, str, type(None)))
_NUMBERS_AND_TEXTS = (str, bytes, int, float, complex, type(None), torch.Size, enum.Enum)
_NOT_KEPT = object()


class Attributes:
    """The attributes of a module and of all modules inside of it, at one call."""

    def __init__(self, root):
        walk = _Walk()
        self._kept = []  # (dict of a module, recipes by name)
        for place, owner in _owners(root):
            # Fast path: most attributes are numbers.
            self._kept.append((owner, {name: value if type(value) in _IMMUTABLE else walk.recipe(value, (place, name))
                                       for name, value in owner.items() if name not in _OF_MODULES}))
        self.tensors = walk.tensors

    @contextlib.contextmanager
    def again(self, root):
        """A context with the attributes of the call. At its end, all attributes and buffers are as they were before it:
        the program expects those of the forward. Parameters are left out: fully_shard exchanges them until backward
        ends."""
        before = [(owner, dict(owner)) for _, owner in _owners(root)]
        made = {}
        for owner, recipes in self._kept:
            _put_back(owner, recipes, made)
        try:
            yield
        finally:
            for owner, values in before:
                for name in owner.keys() - values.keys():
                    del owner[name]
                owner.update(values)


class AttributesInCalls:
    """Finds the tensors that a checkpoint would hold of each call of a step because the module replaces them in its
    attributes."""

    def __init__(self, places):
        self._places = places  # path -> number

    def begin(self, module):
        """Returns the tensors in attributes when a call begins, and a number for the path of each."""
        held = Attributes(module).tensors
        return [one.tensor for one in held], [self._places.setdefault(one.path, len(self._places)) for one in held]

    def unchanged(self, module, begun):
        """Returns the numbers of the paths that still have all tensors. `begun` are pairs of a number and a weak
        reference to a tensor."""
        now = {id(held.tensor) for held in Attributes(module).tensors}
        changed = {place for place, known in begun if known() is None or id(known()) not in now}
        return list({place for place, _ in begun} - changed)


class _HeldAttribute(Held):
    """A tensor in an attribute, held until let_go()."""

    __slots__ = ("_known", "_empty", "_place", "_storage")

    def built(self, given):
        if self.tensor is not None:
            return self.tensor
        known = self._known()
        return self._empty if known is None else known

    def let_go(self):
        """Stops holding the tensor. If it is gone when the region runs again, one without memory replaces it."""
        tensor = self.tensor
        self._known, self._empty = weakref.ref(tensor), stand_in(tensor)
        self._place = tensor.shape, tensor.stride(), tensor.storage_offset()
        self._storage = StorageWeakRef(tensor.untyped_storage())  # no other storage gets its address
        self.tensor = None

    def hold(self, alias):
        """Holds the tensor again. If the program kept it only detached, another one replaces it."""
        self.tensor = self._known()
        if self.tensor is None:
            self.tensor = alias.detach().as_strided(*self._place)


class _Walk(_copies.Walk):
    """Makes the recipes of attributes."""

    def __init__(self):
        super().__init__(_MOST)
        self.tensors = []
        self._path = None  # of the attribute

    def recipe(self, value, path):
        if type(value) is tuple and _IMMUTABLE.issuperset(map(type, value)):  # a fast path, as for sizes of kernels
            return value
        if not _is_kept(path[1], value):
            return _NOT_KEPT
        found, self._path, self._left = len(self.tensors), path, _MOST
        try:
            return self.value(value, None, path)
        except Unrepeatable:  # too many values
            self._known = {}  # has unfinished recipes
            del self.tensors[found:]
            return _NOT_KEPT

    def value(self, value, above, key, how=_copies.FIRST, inside=False):
        if kind_of(type(value)) in (_copies.OBJECT, _copies.ONCE):
            return value
        return super().value(value, above, key, how, inside)

    def tensor(self, tensor, path, inside):
        self.tensors.append(_HeldAttribute(tensor, self._path))
        return self.tensors[-1]


def _owners(root):
    """Yields the dicts with attributes, and those with buffers, of a module and all modules inside of it, after the
    module's number."""
    found, waiting = {id(root)}, [root]
    while waiting:
        module = waiting.pop()
        yield len(found) - len(waiting), attributes_of(module)
        if module._buffers:
            yield len(found) - len(waiting), module._buffers
        for child in module._modules.values():
            if child is not None and id(child) not in found:
                found.add(id(child))
                waiting.append(child)


def _is_kept(name, value):
    if type(name) is not str:  # fully_shard's own state
        return False
    kind = kind_of(type(value))
    return is_a(value, _NUMBERS_AND_TEXTS) if kind == _copies.LEAF else kind not in (_copies.OBJECT, _copies.ONCE)


def _put_back(owner, recipes, made):
    """Gives a module the attributes of the call, and no others but those that are not kept."""
    for name in owner.keys() - recipes.keys() - _OF_MODULES:
        if _is_kept(name, owner[name]):
            del owner[name]
    for name, recipe in recipes.items():
        value = recipe if type(recipe) in _IMMUTABLE else built(recipe, (), made)
        if value is not _NOT_KEPT and owner.get(name, _NOT_KEPT) is not value:
            owner[name] = value
