# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of a checkpointed module, kept as they were at the call: caches, lists and other objects may change.

A region's forward gets the program's own objects, so that the program sees every change. Its recomputation gets copies
of the mutable arguments as they were at entry. Tensors are never copied. Tensors in lists, tuples and dicts are held
until backward, as the planner counts them. Of the tensors in other objects (a cache with the keys and values of all
layers), only those that the region read are held; a tensor without memory replaces each of the others.
"""

from __future__ import annotations

import collections
import enum
import functools
import inspect
import io
import operator
import types

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ._modules import inner_tensors, is_plain


class Unrepeatable(Exception):
    """Raised if a module cannot run again with its arguments. `str()` says which argument and why."""


class Arguments:
    """The arguments of one call. `given` are the tensors for checkpoint(), which returns them in backward."""

    def __init__(self, forward, args, kwargs):
        self._forward = forward
        self.given, places = _handed_over(args, kwargs)
        walk = _Walk(forward, places)
        self._args = [walk.value(value, None, place) for place, value in enumerate(args)]
        self._kwargs = {name: walk.value(value, None, name) for name, value in kwargs.items()}
        self._tensors = walk.tensors

    def held(self):
        """Returns the tensors among the arguments that checkpoint() does not hold."""
        return [held for held in self._tensors if held.place is None]

    def check(self, when):
        """Raises Unrepeatable if a tensor was changed in place since the call began."""
        for held in self._tensors:
            if _version(held.tensor) != held.version:
                raise Unrepeatable(
                    f"its argument {_name_of(self._forward, held.path)} is changed in place {when}, {_NOT_AGAIN}")

    def end_forward(self, unread):
        """Ends the call's forward. Keeps only tensors that checkpoint() does not hold, and of objects only those that
        were read."""
        for held in self._tensors:
            if held.place is not None:
                held.tensor = None
            elif held.inside and held in unread:
                held.let_go()
        self._tensors = [held for held in self.held() if held not in unread]
        self.given = ()

    def again(self, given):
        """Returns positional and named arguments for another run, using the tensors that checkpoint() returned."""
        made = {}
        args = [_built(value, given, made) for value in self._args]
        return args, {name: _built(value, given, made) for name, value in self._kwargs.items()}


class HeldInCalls:
    """Finds the tensors that a checkpoint would hold of each call of a step, besides those that tensors_of() finds."""

    def __init__(self):
        self._places = {}  # path -> number

    def of(self, args, kwargs, found):
        """Returns the tensors and their places. A place is a number that stands for the same path in all calls, or -1
        if a checkpoint holds the tensor even when the forward does not read it. `found` is the result of
        tensors_of()."""
        if not _has_more(args) and not _has_more(kwargs):
            return (), ()
        walk = _Walk(None, {})
        try:
            for name, value in (*enumerate(args), *kwargs.items()):
                walk.value(value, None, name)
        except Unrepeatable:  # no checkpoint is possible around this call
            return (), ()
        known = set(map(id, found))
        tensors, places = [], []
        for held in walk.tensors:
            if id(held.tensor) in known:
                continue
            is_read = held.inside and is_plain(type(held.tensor))  # reads of plain tensors can be observed
            for part in _parts_of(held.tensor):
                tensors.append(part)
                places.append(self._places.setdefault(held.path, len(self._places)) if is_read else -1)
        return tensors, places


def _has_more(value):
    """Returns whether an argument may contain tensors that tensors_of() does not find."""
    cls = type(value)
    if cls in (tuple, list, dict):
        return any(map(_has_more, value.values() if cls is dict else value))
    kind = _kind_of(cls)
    return kind != _LEAF and not (kind == _TENSOR and is_plain(cls))


def _parts_of(tensor):
    """Returns the plain tensors that hold the memory of a tensor."""
    if not is_traceable_wrapper_subclass(tensor):
        return [tensor]
    return [part for inner in inner_tensors(tensor) for part in _parts_of(inner)]


_NOT_AGAIN = ("so that it cannot run again in backward; give it a copy (in transformers: use_cache=False) and record "
              "the step again, or leave the module out of the plan (--pin)")


class Held:
    """A tensor among the arguments, as it was at the call. `place` is its index in Arguments.given; None: not in
    there."""

    __slots__ = ("tensor", "version", "path", "place", "inside")

    def __init__(self, tensor, path, place, inside):
        self.tensor = tensor
        self.version = _version(tensor)
        self.path = path
        self.place = place
        self.inside = inside  # whether it is inside an object

    def let_go(self):
        """Replaces the tensor by one without memory. Its shape, dtype and other metadata stay readable."""
        tensor = self.tensor
        self.tensor = _stand_in(tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad)


class _Unread(torch.Tensor):
    """Replaces a tensor that a forward did not read. It has no memory."""

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        raise RuntimeError(f"{op} reads a tensor in the recomputation of a module whose forward did not: take the "
                           "policy off with torch_headroom.remove(model), or leave the module out of the plan (--pin)")


@functools.lru_cache(maxsize=1024)
def _stand_in(shape, stride, dtype, device, requires_grad):
    return torch.Tensor._make_wrapper_subclass(
        _Unread, shape, strides=stride, dtype=dtype, device=device, requires_grad=requires_grad)


def _version(tensor):
    return 0 if tensor.is_inference() else tensor._version


def _handed_over(args, kwargs):
    """Returns the tensors for checkpoint() and, by identity, their places among them. A tensor given twice is passed
    once: checkpoint() makes a new object of each, and forwards test whether two are the same (`query is key` in
    nn.MultiheadAttention). Named tensors are passed only if no positional one exists: checkpoint() restores the random
    number generators of the devices of its arguments."""
    given, places = [], {}
    for values in (args, kwargs.values()):
        for value in values:
            if isinstance(value, torch.Tensor) and id(value) not in places:
                places[id(value)] = len(given)
                given.append(value)
        if given:
            break
    return given, places


# Formats of a key in a path.
_FIRST, _ITEM, _ATTRIBUTE = "{}", "[{!r}]", ".{}"


def _name_of(forward, path):
    """Returns the name of a path for messages: `past_key_values.layers[3].keys`"""
    text = ""
    while path is not None:
        above, key, how = path
        if above is None and isinstance(key, int):
            key = _parameter_name(forward, key)
        text = how.format(key) + text
        path = above
    return f"`{text}`"


def _parameter_name(forward, place):
    try:
        parameters = list(inspect.signature(forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = place < len(parameters) and parameters[place].kind is not inspect.Parameter.VAR_POSITIONAL
    return parameters[place].name if named else f"number {place + 1}"


_LEAF, _TENSOR, _TUPLE, _LIST, _DICT, _SET, _DEQUE, _OBJECT, _RANDOM, _ONCE = range(10)
_LEAVES = (str, bytes, int, float, complex, type(None), torch.Size, torch.nn.Module, torch.optim.Optimizer, type,
           types.ModuleType, types.FunctionType, types.MethodType, enum.Enum, io.IOBase, BaseException)
_CONTAINERS = ((torch.Tensor, _TENSOR), (tuple, _TUPLE), (list, _LIST), (dict, _DICT), ((set, frozenset), _SET),
               (collections.deque, _DEQUE), (torch.Generator, _RANDOM))
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_MOST = 100_000  # largest number of values in the arguments of one call
_kinds = {}


def _kind_of(cls):
    kind = _kinds.get(cls)
    if kind is None:
        kind = _kinds[cls] = _find_kind(cls)
    return kind


def _find_kind(cls):
    if issubclass(cls, _LEAVES):
        return _LEAF
    for classes, kind in _CONTAINERS:
        if issubclass(cls, classes):
            return kind
    if hasattr(cls, "__next__"):
        return _ONCE
    if issubclass(cls, types.SimpleNamespace):
        return _OBJECT
    # Python objects are copied. Objects that must be closed, or whose state is in C, are shared.
    if not cls.__flags__ & _HEAP_TYPE or hasattr(cls, "__del__"):
        return _LEAF
    try:
        object.__new__(cls)
    except TypeError:
        return _LEAF
    return _OBJECT


@functools.lru_cache(maxsize=None)
def _slots_of(cls):
    bases = [base for base in reversed(cls.__mro__) if base.__flags__ & _HEAP_TYPE]
    members = {name: member for base in bases for name, member in vars(base).items()}
    return {name: member for name, member in members.items() if isinstance(member, types.MemberDescriptorType)}


def _state_of(value):
    """Returns an object's attributes, from its __dict__ and its slots."""
    state = dict(getattr(value, "__dict__", ()))
    for name, member in _slots_of(type(value)).items():
        try:
            state[name] = member.__get__(value)
        except AttributeError:  # the slot is not set
            pass
    return state


class _Copy:
    """A recipe for copies of a mutable object as it was at the call."""

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
        if self.kind == _OBJECT:
            return (types.SimpleNamespace if issubclass(cls, types.SimpleNamespace) else object).__new__(cls)
        if self.kind == _RANDOM:
            return self.option.clone_state()
        if self.kind == _DEQUE:
            copy = collections.deque.__new__(cls)
            collections.deque.__init__(copy, (), self.option)
            return copy
        copy = next(base for base in cls.__mro__ if base.__module__ in ("builtins", "collections")).__new__(cls)
        if self.kind == _DICT and isinstance(copy, collections.defaultdict):
            copy.default_factory = self.option
        return copy

    def tuple_of(self, items):
        if hasattr(self.cls, "n_fields"):  # torch.return_types
            return self.cls(items)
        return (frozenset if issubclass(self.cls, frozenset) else tuple).__new__(self.cls, items)

    def fill(self, copy, items):
        if self.kind == _LIST:
            list.extend(copy, items)
        elif self.kind == _SET:
            set.update(copy, items)
        elif self.kind == _DEQUE:
            collections.deque.extend(copy, items)
        elif self.kind == _DICT:
            place = (collections.OrderedDict if isinstance(copy, collections.OrderedDict) else dict).__setitem__
            for key, item in zip(self.keys, items):
                place(copy, key, item)


class _Walk:
    """Walks through the arguments of one call. A path is (path above, key, format of the key)."""

    def __init__(self, forward, places):
        self._forward = forward
        self._places = places
        self._known = {}  # id of a visited value -> (value, its recipe)
        self._left = _MOST
        self.tensors = []

    def value(self, value, above, key, how=_FIRST, inside=False):
        """Returns the recipe for `value`: the value itself if it is immutable. `inside`: it is part of an object."""
        kind = _kind_of(type(value))
        if kind == _LEAF:
            return value
        known = self._known.get(id(value))
        return known[1] if known else self._know(value, self._met(kind, value, (above, key, how), inside))

    def _know(self, value, stands):
        self._known[id(value)] = value, stands  # keeps the value alive, so that its id is not reused
        return stands

    def _met(self, kind, value, path, inside):
        if kind == _TENSOR:
            held = Held(value, path, self._places.get(id(value)), inside)
            self.tensors.append(held)
            return value if held.place is None and not inside else held  # so that a tuple of tensors is not copied
        if kind == _ONCE:
            self._fail(path, f"is a {type(value).__name__}, which can be read only once, {_NOT_AGAIN}")
        if kind == _TUPLE or isinstance(value, frozenset):
            items = self._values(value, range(len(value)), path, inside)
            if all(map(operator.is_, items, value)):
                return value
            copy = _Copy(_TUPLE, type(value))
            copy.items = items
            return copy
        return self._mutable(kind, value, path, inside)

    def _mutable(self, kind, value, path, inside):
        if kind == _RANDOM:
            return _Copy(kind, type(value), value.clone_state())
        option = value.maxlen if kind == _DEQUE else getattr(value, "default_factory", None) if kind == _DICT else None
        copy = self._know(value, _Copy(kind, type(value), option))  # registered first, as it may contain itself
        if kind == _DICT:
            copy.keys = list(value)
            copy.items = self._values(value.values(), copy.keys, path, inside)
        elif kind != _OBJECT:
            copy.items = self._values(value, range(len(value)), path, inside)
        state = _state_of(value)
        self._count(len(state), path)
        copy.state = {name: self.value(item, path, name, _ATTRIBUTE, True) for name, item in state.items()}
        is_mark = kind == _OBJECT and not state  # a marker, which code compares by identity
        return value if is_mark else copy

    def _values(self, values, keys, path, inside):
        self._count(len(values), path)
        return [self.value(value, path, key, _ITEM, inside) for key, value in zip(keys, values)]

    def _count(self, more, path):
        self._left -= more
        if self._left < 0:
            self._fail(path, f"holds more than {_MOST:,} values, too many to keep for each call; give it only what it "
                       "reads, or leave the module out of the plan (--pin)")

    def _fail(self, path, what):
        raise Unrepeatable(f"its argument {_name_of(self._forward, path)} {what}")


def _built(value, given, made):
    """Builds the value of a recipe; `made` maps recipes to copies that exist already."""
    kind = type(value)
    if kind is Held:
        return value.tensor if value.place is None else given[value.place]
    if kind is not _Copy:
        return value
    if value in made:
        return made[value]
    if value.kind == _TUPLE:
        items = [_built(item, given, made) for item in value.items]
        return made.setdefault(value, value.tuple_of(items))
    copy = made[value] = value.empty()
    value.fill(copy, [_built(item, given, made) for item in value.items])
    slots = _slots_of(value.cls)
    for name, item in value.state.items():
        item = _built(item, given, made)
        if name in slots:
            slots[name].__set__(copy, item)
        else:
            copy.__dict__[name] = item
    return copy
