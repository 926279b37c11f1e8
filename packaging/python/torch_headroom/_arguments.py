# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of a checkpointed module, kept as they were at the call: caches, lists and other objects may change.

A region's forward gets the program's own objects, so that the program sees every change. Its recomputation gets copies
of the mutable arguments as they were at entry. Tensors are never copied. Tensors in lists, tuples and dicts are held
until backward, as the planner counts them. Of the tensors in other objects (a cache with the keys and values of all
layers), only those that the region read are held; a tensor without memory replaces each of the others.
"""

from __future__ import annotations

import inspect

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from . import _copies
from ._containers import is_a
from ._copies import NOT_AGAIN, Unrepeatable, built, kind_of, stand_in
from ._modules import inner_tensors, is_plain

_MOST = 100_000  # largest number of values in the arguments of one call


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
            if version_of(held.tensor) != held.version:
                raise Unrepeatable(
                    f"its argument {_name_of(self._forward, held.path)} is changed in place {when}, {NOT_AGAIN}")

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
        args = [built(value, given, made) for value in self._args]
        return args, {name: built(value, given, made) for name, value in self._kwargs.items()}


class HeldInCalls:
    """Finds the tensors that a checkpoint would hold of each call of a step, besides those that tensors_of() finds."""

    def __init__(self, places):
        self._places = places  # path -> number

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
    kind = kind_of(cls)
    return kind != _copies.LEAF and not (kind == _copies.TENSOR and is_plain(cls))


def _parts_of(tensor):
    """Returns the plain tensors that hold the memory of a tensor."""
    if not is_traceable_wrapper_subclass(tensor):
        return [tensor]
    return [part for inner in inner_tensors(tensor) for part in _parts_of(inner)]


class _HeldArgument(_copies.Held):
    """A tensor among the arguments. `place` is its index in Arguments.given; None: not in there."""

    __slots__ = ("version", "place", "inside")

    def __init__(self, tensor, path, place, inside):
        super().__init__(tensor, path)
        self.version = version_of(tensor)
        self.place = place
        self.inside = inside  # whether it is inside an object

    def built(self, given):
        return self.tensor if self.place is None else given[self.place]

    def let_go(self):
        """Replaces the tensor by one without memory. Its shape, dtype and other metadata stay readable."""
        self.tensor = stand_in(self.tensor)


def version_of(tensor):
    """Returns the number of in-place changes of a tensor so far."""
    with torch._C.DisableTorchFunctionSubclass():  # a class of the program may answer otherwise
        return 0 if torch.Tensor.is_inference(tensor) else torch.Tensor._version.__get__(tensor)


def _handed_over(args, kwargs):
    """Returns the tensors for checkpoint() and, by identity, their places among them. A tensor given twice is passed
    once: checkpoint() makes a new object of each, and forwards test whether two are the same (`query is key` in
    nn.MultiheadAttention). Named tensors are passed only if no positional one exists: checkpoint() restores the random
    number generators of the devices of its arguments."""
    given, places = [], {}
    for values in (args, kwargs.values()):
        for value in values:
            if is_a(value, torch.Tensor) and id(value) not in places:
                places[id(value)] = len(given)
                given.append(value)
        if given:
            break
    return given, places


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


class _Walk(_copies.Walk):
    """Walks through the arguments of one call."""

    def __init__(self, forward, places):
        super().__init__(_MOST)
        self._forward = forward
        self._places = places
        self.tensors = []

    def tensor(self, tensor, path, inside):
        held = _HeldArgument(tensor, path, self._places.get(id(tensor)), inside)
        self.tensors.append(held)
        return tensor if held.place is None and not inside else held  # so that a tuple of tensors is not copied

    def fail(self, path, what):
        raise Unrepeatable(f"its argument {_name_of(self._forward, path)} {what}")
