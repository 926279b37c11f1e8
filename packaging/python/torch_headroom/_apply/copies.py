# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes for copies of values as at the call of a module: lists, dicts and other objects may change before the module
runs again. Tensors are never copied. Iterators are not copied either: what a forward takes is kept for the
recomputation."""

from __future__ import annotations

import array
import collections
import copy as copying
import enum
import functools
import io
import operator
import random
import sys
import types

import torch

from .._modules import attributes_of, bases_of, has_member, is_a, keys_of, values_in
from .members import HEAP_TYPE, IMMUTABLE, slots_of, state_of
from .policy import Unrepeatable
from .recompute import Forward, GlobalGenerators

CANNOT_RECOMPUTE = ("so that the module cannot run again in backward; give the module a copy (in transformers: "
                    "use_cache=False) and record the step again, or leave the module out of the plan (--pin)")


class Held:
    """A tensor inside a value, as at the call: a recipe for the tensor itself."""

    __slots__ = ("tensor", "path")

    def __init__(self, tensor, path):
        self.tensor = tensor
        self.path = path

    def hold(self, alias):
        """Holds the tensor from here on. `alias` shares the tensor's storage."""

    def built(self, inputs):
        raise NotImplementedError


class _Stub(torch.Tensor):
    """Replaces a tensor that a forward did not read. The replacement has no memory."""

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        if op is torch.ops.aten.detach.default:  # reads nothing
            return _new_stub(*_metadata(args[0])[:-1], False)
        raise RuntimeError(f"{op} reads a tensor in the recomputation of a module, but not in the forward: take the "
                           "policy off with torch_headroom.remove(model), or leave the module out of the plan (--pin)")


def stub(tensor):
    """Returns a stub without memory. Shape, dtype and other metadata equal the metadata of `tensor`."""
    return _stub(*_metadata(tensor))


def _metadata(tensor):
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad


def _new_stub(shape, stride, dtype, device, requires_grad):
    return torch.Tensor._make_wrapper_subclass(
        _Stub, shape, strides=stride, dtype=dtype, device=device, requires_grad=requires_grad)


_stub = functools.lru_cache(maxsize=1024)(_new_stub)


# Formats of a key in a path.
FIRST, ITEM, ATTRIBUTE = "{}", "[{!r}]", ".{}"

LEAF, TENSOR, TUPLE, LIST, DICT, SET, DEQUE, OBJECT, WHOLE, ONCE = range(10)
_LEAVES = (str, bytes, int, float, complex, type(None), torch.Size, torch.nn.Module, torch.optim.Optimizer, type,
           types.ModuleType, types.FunctionType, types.MethodType, Forward, enum.Enum, io.IOBase, BaseException)
_CONTAINERS = ((torch.Tensor, TENSOR), (tuple, TUPLE), (list, LIST), (dict, DICT), ((set, frozenset), SET),
               (collections.deque, DEQUE), (torch.Generator, WHOLE))
_DEFAULT = collections.defaultdict.default_factory  # descriptor
_kinds = {}


def kind_of(cls):
    kind = _kinds.get(cls)
    if kind is None:
        kind = _kinds[cls] = _find_kind(cls)
    return kind


def _generators():
    """Returns the classes of random number generators with a state, besides torch.Generator."""
    numpys = sys.modules.get("numpy.random")
    return (random.Random,) if numpys is None else (random.Random, numpys.Generator, numpys.RandomState)


def _is_array(cls):
    """Returns whether objects of a class are arrays of numbers on the CPU."""
    return cls in (bytearray, array.array) or cls is getattr(sys.modules.get("numpy"), "ndarray", None)


def _find_kind(cls):
    if issubclass(cls, (*_LEAVES, random.SystemRandom)):
        return LEAF
    if issubclass(cls, _generators()) or _is_array(cls):
        return WHOLE
    for classes, kind in _CONTAINERS:
        if issubclass(cls, classes):
            return kind
    if has_member(cls, "__next__"):
        return ONCE
    if issubclass(cls, types.SimpleNamespace):
        return OBJECT
    # Python objects are copied. Objects that must be closed, or whose state is in C, are shared.
    if not cls.__flags__ & HEAP_TYPE or has_member(cls, "__del__"):
        return LEAF
    try:
        object.__new__(cls)
    except TypeError:
        return LEAF
    return OBJECT


class Drawn:
    """An iterator that hands on what another one gives, and keeps the values for a recomputation. The other iterator
    may be a generator of the program, which draws random numbers."""

    __slots__ = ("source", "_values", "_keeps")

    def __init__(self, source):
        self.source = source.source if type(source) is Drawn else source  # the program may have stored a Drawn
        self._values = []  # (value, states of the global generators if the source has drawn numbers)
        self._keeps = True

    def __iter__(self):
        return self

    def __next__(self):
        return self._take(self.source.__next__)

    def __getattr__(self, name):
        found = getattr(self.source, name)
        return functools.partial(self._take, found) if name == "send" else found

    def _take(self, function, *args):
        if not self._keeps:
            return function(*args)
        before = GlobalGenerators()
        value = function(*args)
        after = GlobalGenerators()
        self._values.append((value, None if after.are_as(before) else after))
        return value

    def end(self):
        """Keeps no more values."""
        self._keeps = False

    def again(self):
        """Returns a new iterator over the values."""
        values = self._again()
        next(values)  # so that the program may call send()
        return values

    def _again(self):
        yield
        for value, generators in self._values:
            if generators is not None:
                generators.restore()
            yield value


def is_drawn(recipe):
    """Returns whether a recipe has an iterator, perhaps in tuples."""
    return type(recipe) is Drawn or (type(recipe) is Copy and recipe.kind == TUPLE and any(map(is_drawn, recipe.items)))


def drawing(recipe, value):
    """Returns what replaces a value while a forward runs, so that the value's iterators keep what the forward takes."""
    if not is_drawn(recipe):
        return value
    return recipe if type(recipe) is Drawn else recipe.tuple_of(map(drawing, recipe.items, values_in(value)))


def entries_of(container):
    """Returns the keys and values of a container, or of members. In a set, a value is the key."""
    if is_a(container, dict):
        return list(zip(keys_of(container), values_in(container)))
    if is_a(container, (list, collections.deque)):
        return list(enumerate(values_in(container)))
    return [(value, value) for value in values_in(container)] if is_a(container, set) else container.items()


def place(container, key, value):
    """Replaces a value in a container or in members. Runs no code of the program."""
    if is_a(container, set):
        set.discard(container, key)
        set.add(container, value)
        return
    kinds = collections.OrderedDict, dict, list, collections.deque, type(container)
    next(kind for kind in kinds if is_a(container, kind)).__setitem__(container, key, value)


def are_same(one, other, known=None):
    """Returns whether two recipes give equal values, as far as can be seen without code of the program."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if is_a(one, Held):
        return one.built(()) is other.built(())
    if type(one) in (tuple, frozenset):
        return _are_all_same(list(one), list(other), known)
    if type(one) is not Copy:
        return type(one) in (bool, int, float, str, bytes) and one == other
    known = set() if known is None else known  # of copies that are compared, as a container may hold itself
    if (id(one), id(other)) in known:
        return True
    known.add((id(one), id(other)))
    return (one.cls is other.cls and one.kind != WHOLE and one.state.keys() == other.state.keys()
            and _are_all_same([*one.keys, *one.items, *one.state.values()],
                              [*other.keys, *other.items, *(other.state[name] for name in one.state)], known))


def _are_all_same(some, others, known):
    return len(some) == len(others) and all(are_same(one, other, known) for one, other in zip(some, others))


class Copy:
    """A recipe for copies of a mutable object as at the call."""

    __slots__ = ("kind", "cls", "option", "keys", "items", "state")

    def __init__(self, kind, cls, option=None):
        self.kind = kind
        self.cls = cls
        self.option = option
        self.keys = self.items = ()
        self.state = {}

    def empty(self):
        """Returns a new, empty object."""
        cls = self.cls
        if self.kind == OBJECT:
            return (types.SimpleNamespace if issubclass(cls, types.SimpleNamespace) else object).__new__(cls)
        if self.kind == WHOLE:
            return _whole_copy(self.option)
        if self.kind == DEQUE:
            copy = collections.deque.__new__(cls)
            collections.deque.__init__(copy, (), self.option)
            return copy
        copy = next(base for base in bases_of(cls) if base.__module__ in ("builtins", "collections")).__new__(cls)
        if issubclass(cls, collections.defaultdict):
            _DEFAULT.__set__(copy, self.option)
        return copy

    def tuple_of(self, items):
        if "n_unnamed_fields" in self.cls.__dict__:  # a struct sequence, as in torch.return_types
            return self.cls(items)
        return (frozenset if issubclass(self.cls, frozenset) else tuple).__new__(self.cls, items)

    def fill(self, copy, items):
        if self.kind == LIST:
            list.extend(copy, items)
        elif self.kind == SET:
            set.update(copy, items)
        elif self.kind == DEQUE:
            collections.deque.extend(copy, items)
        elif self.kind == DICT:
            place = (collections.OrderedDict if is_a(copy, collections.OrderedDict) else dict).__setitem__
            for key, item in zip(self.keys, items):
                place(copy, key, item)


def _whole_copy(value):
    """Returns a new random number generator with the same state, or a new array."""
    return (torch.Generator.clone_state if is_a(value, torch.Generator) else copying.deepcopy)(value)


def _name_of_key(key, place):
    """Returns a dict's key as a path has the key, hashed and printed: a number if the key's class is the program's."""
    return key if type(key) in (str, bytes, int, float, bool, type(None)) else f"number {place + 1}"


# Arrays, and containers of numbers alone, are copied fast: how much counts as a value.
_BYTES_OF_A_VALUE, _NUMBERS_OF_A_VALUE = 1000, 100


class Walk:
    """Walks through values and makes recipes. A path is (path above, key, format of the key)."""

    def __init__(self, most):
        """`most` is the largest number of values inside of the visited values."""
        self._most = self._left = most
        self._known = {}  # id of a visited value -> (value, recipe)

    def value(self, value, above, key, how=FIRST, inside=False):
        """Returns the recipe for `value`: the value itself if immutable. `inside`: the value is part of an object."""
        kind = kind_of(type(value))
        if kind == LEAF:
            return value
        known = self._known.get(id(value))
        return known[1] if known else self._know(value, self._met(kind, value, (above, key, how), inside))

    def tensor(self, tensor, path, inside):
        """Returns the recipe for a tensor."""
        raise NotImplementedError

    def fail(self, path, what):
        """Raises Unrepeatable, for what a value at `path` is."""
        raise Unrepeatable(what)

    def _know(self, value, recipe):
        self._known[id(value)] = value, recipe  # keeps the value alive, so that no other value gets the id
        return recipe

    def _met(self, kind, value, path, inside):
        if kind == TENSOR:
            return self.tensor(value, path, inside)
        if kind == ONCE:
            self.fail(path, f"is a {type(value).__name__} and can be read only once, {CANNOT_RECOMPUTE}")
        if kind == TUPLE or is_a(value, frozenset):
            values = values_in(value)
            items = self._values(values, range(len(values)), path, inside)
            if all(map(operator.is_, items, values)):
                return value
            copy = Copy(TUPLE, type(value))
            copy.items = items
            return copy
        return self._mutable(kind, value, path, inside)

    def _mutable(self, kind, value, path, inside):
        cls = type(value)
        if kind == WHOLE:
            self._count(getattr(value, "nbytes", sys.getsizeof(value)) // _BYTES_OF_A_VALUE, path)
            return Copy(kind, cls, _whole_copy(value))
        option = (collections.deque.maxlen.__get__(value) if kind == DEQUE
                  else _DEFAULT.__get__(value) if issubclass(cls, collections.defaultdict) else None)
        copy = self._know(value, Copy(kind, cls, option))  # registered first: an object may contain itself
        if kind != OBJECT:
            values = values_in(value)
            copy.keys = keys_of(value) if kind == DICT else ()
            names = map(_name_of_key, copy.keys, range(len(values))) if kind == DICT else range(len(values))
            copy.items = self._values(values, names, path, inside)
        state = state_of(value)
        self._count(len(state), path)
        copy.state = {name: self.value(item, path, name, ATTRIBUTE, True) for name, item in state.items()}
        is_mark = kind == OBJECT and not state  # a marker, which code compares by identity
        return value if is_mark else copy

    def _values(self, values, keys, path, inside):
        if IMMUTABLE.issuperset(map(type, values)):  # a fast path
            self._count(len(values) // _NUMBERS_OF_A_VALUE, path)
            return values
        self._count(len(values), path)
        return [self.value(value, path, key, ITEM, inside) for key, value in zip(keys, values)]

    def _count(self, more, path):
        self._left -= more
        if self._left < 0:
            self.fail(path, f"holds more than {self._most:,} values, too many to keep for each call; give the "
                            "module only arguments that the forward reads, or leave the module out of the plan "
                            "(--pin)")


def built(value, inputs, made):
    """Builds the value of a recipe; `made` maps recipes to copies that exist already, `inputs` is for Held.built()."""
    if is_a(value, Held):
        return value.built(inputs)
    if type(value) not in (Copy, Drawn):
        return value
    if value in made:
        return made[value]
    if type(value) is Drawn:
        return made.setdefault(value, value.again())
    if value.kind == TUPLE:
        items = [built(item, inputs, made) for item in value.items]
        return made.setdefault(value, value.tuple_of(items))
    copy = made[value] = value.empty()
    value.fill(copy, [built(item, inputs, made) for item in value.items])
    slots = slots_of(value.cls)
    for name, item in value.state.items():
        item = built(item, inputs, made)
        if name in slots:
            slots[name].__set__(copy, item)
        else:
            attributes_of(copy)[name] = item
    return copy
