# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a checkpoint keeps of a module's call until backward: the arguments and the attributes, as at the call.

A region's forward gets the program's own objects, so that the program sees every change. The recomputation gets copies
of the mutable arguments as at entry. Tensors are never copied. Tensors in lists, tuples and dicts are held until
backward, as the planner counts. Of tensors in other objects (a cache with the keys and values of all layers), only
tensors that the region read are held; a stub without memory replaces each other tensor.

Attributes and buffers of the region's modules are kept, too. A forward may replace attributes (a state from call to
call, a count, a list to which the forward appends), and the recomputation begins with the attributes of the call.
Tensors, numbers, strings, functions, random number generators, arrays, and containers of such values are kept. Of a
plain object of the program (a dataclass with a count), and of a module that is no child, the attributes are kept, and
the object stays the same. So are class variables of modules and of such objects, and the variables of methods, of
functions in attributes, and of hooks that a recomputation runs again. What a forward takes from an iterator is given to
the recomputation again. A tensor in an attribute is held only if the region reads the tensor. All tensors of an
attribute have one path. A plain tensor in the place of a parameter (torch.func.functional_call) is kept as an
attribute; Parameters (members.py) keeps the rest.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import inspect
import types
import weakref

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .._modules import attributes_of, inner_tensors, is_a, is_plain, storage_of, values_in
from . import copies, members
from .copies import CANNOT_RECOMPUTE, Copy, Drawn, Held, built, kind_of, stub
from .members import IMMUTABLE, SHARDED
from .policy import Unrepeatable

_MOST_IN_ARGUMENTS = 100_000  # largest number of values in the arguments of one call


class Arguments:
    """The arguments of a call. `inputs` are the tensors for checkpoint(), which returns them in backward. `moving` are
    tensors that go to the host, and so must be among the inputs."""

    def __init__(self, forward, args, kwargs, moving=()):
        self._forward = forward
        self.inputs, places = _checkpoint_inputs(args, kwargs, moving)
        walk = _ArgumentWalk(forward, places)
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
                    f"the argument {_name_of(self._forward, held.path)} is changed in place {when}, {CANNOT_RECOMPUTE}")

    def end_forward(self, unread):
        """Ends the call's forward. Keeps only tensors that checkpoint() does not hold, and of tensors in objects only
        the tensors that were read."""
        for held in self._tensors:
            if held.place is not None:
                held.tensor = None
            elif held.inside and held in unread:
                held.release()
        self._tensors = [held for held in self.held() if held not in unread]
        self.inputs = ()

    def for_recompute(self, inputs):
        """Returns positional and named arguments for another run, using the tensors that checkpoint() returned."""
        made = {}
        args = [built(value, inputs, made) for value in self._args]
        return args, {name: built(value, inputs, made) for name, value in self._kwargs.items()}


class HeldInCalls:
    """Finds the tensors that a checkpoint would hold of each call of a step, besides the tensors that tensors_of()
    finds."""

    def __init__(self, places):
        self._places = places  # path -> number

    def of(self, args, kwargs, found):
        """Returns the tensors and the places. A place is a number for the same path in all calls, or -1 if a checkpoint
        holds the tensor even when the forward does not read the tensor. `found` is the result of tensors_of()."""
        if not _has_more(args) and not _has_more(kwargs):
            return (), ()
        walk = _ArgumentWalk(None, {})
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
            for part in parts_of(held.tensor):
                tensors.append(part)
                places.append(self._places.setdefault(held.path, len(self._places)) if is_read else -1)
        return tensors, places


def _has_more(value):
    """Returns whether an argument may contain tensors that tensors_of() does not find."""
    cls = type(value)
    if cls in (tuple, list, dict):
        return any(map(_has_more, value.values() if cls is dict else value))
    kind = kind_of(cls)
    return kind != copies.LEAF and not (kind == copies.TENSOR and is_plain(cls))


def parts_of(tensor):
    """Returns the plain tensors that hold the memory of a tensor."""
    if not is_traceable_wrapper_subclass(tensor):
        return [tensor]
    return [part for inner in inner_tensors(tensor) for part in parts_of(inner)]


class _HeldArgument(copies.Held):
    """A tensor among the arguments. `place` is the index in Arguments.inputs; None: not in there."""

    __slots__ = ("version", "place", "inside")

    def __init__(self, tensor, path, place, inside):
        super().__init__(tensor, path)
        self.version = version_of(tensor)
        self.place = place
        self.inside = inside  # whether the tensor is inside an object

    def built(self, inputs):
        return self.tensor if self.place is None else inputs[self.place]

    def release(self):
        """Replaces the tensor by a stub without memory. Shape, dtype and other metadata stay readable."""
        self.tensor = stub(self.tensor)


def version_of(tensor):
    """Returns the number of in-place changes of a tensor so far."""
    with torch._C.DisableTorchFunctionSubclass():  # a class of the program may answer otherwise
        return 0 if torch.Tensor.is_inference(tensor) else torch.Tensor._version.__get__(tensor)


def compare_versions(now, saved):
    """As autograd does for tensors without hooks."""
    if now != saved:
        raise RuntimeError("one of the variables needed for gradient computation has been modified by an inplace "
                           f"operation: a saved tensor is at version {now}, expected version {saved}")


def _checkpoint_inputs(args, kwargs, moving):
    """Returns the tensors for checkpoint() and, by identity, the places among the tensors. A tensor given twice is
    passed once: checkpoint() makes a new object of each tensor, and forwards test whether two are the same (`query is
    key` in nn.MultiheadAttention). Named tensors are passed only if no positional tensor exists: checkpoint() restores
    the random number generators of the devices of the arguments."""
    inputs, places = [], {}
    for values in (args, kwargs.values()):
        for value in values:
            if is_a(value, torch.Tensor) and id(value) not in places:
                places[id(value)] = len(inputs)
                inputs.append(value)
        if inputs:
            break
    for value in moving:
        if id(value) not in places:
            places[id(value)] = len(inputs)
            inputs.append(value)
    return inputs, places


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


class _ArgumentWalk(copies.Walk):
    """Walks through the arguments of one call."""

    def __init__(self, forward, places):
        super().__init__(_MOST_IN_ARGUMENTS)
        self._forward = forward
        self._places = places
        self.tensors = []

    def tensor(self, tensor, path, inside):
        held = _HeldArgument(tensor, path, self._places.get(id(tensor)), inside)
        self.tensors.append(held)
        return tensor if held.place is None and not inside else held  # so that a tuple of tensors is not copied

    def fail(self, path, what):
        raise Unrepeatable(f"the argument {_name_of(self._forward, path)} {what}")


_MOST_IN_ATTRIBUTE = 1000  # largest number of values in an attribute that is kept
_MOST_OBJECTS = 1000  # largest number of objects and functions that keep attributes, of one call
_OF_MODULES = frozenset(vars(torch.nn.Module())) - {"training"} | {"forward"}
_HOOKS_OF_ALL = (torch.nn.modules.module._global_forward_pre_hooks, torch.nn.modules.module._global_forward_hooks)
_CONSTANTS = (str, bytes, int, float, complex, type(None), torch.Size, enum.Enum, torch.dtype, torch.device, range,
              slice, types.BuiltinFunctionType)
_NOT_KEPT = object()


class Attributes:
    """The attributes of a module and of all inner modules, and what hooks of inner modules keep, at one call."""

    def __init__(self, root):
        inside = _modules_in(root)
        walk = self._walk = _AttributeWalk(inside)
        self._kept = []  # (dict of a module, or attributes of an object or class; recipes by name)
        self._changed = {}  # id of the variables of a class or file -> names that the forward changed, after drawn()
        self._children = [(module._modules, dict(module._modules)) for module in inside if module._modules]
        self._hooks = members.Hooks(inside[1:])  # the module's own hooks run outside of the recomputation
        self._sources, self._classes = set(), set()
        for place, module in enumerate(inside):
            self._keep_module(module, lambda name, place=place: (place, name))
            for hook in _hooks_run_again(module, place):
                path = ("hooks", place), getattr(hook, "__name__", "hook")
                walk.recipe(hook, path[1], path)
            self._add_named_by(type(module))
        for path, thing in walk.objects:  # grows meanwhile
            if _is_shared(thing):
                self._keep(thing, thing.items(), lambda name, path=path: (path, name))
                continue
            if is_a(thing, torch.nn.Module):
                self._keep_module(thing, lambda _, path=path: path)
            else:
                for owner in members.attributes_in(thing):
                    self._keep(owner, owner.items(), lambda _, path=path: path)
            self._add_named_by(thing if type(thing) is types.FunctionType else type(thing))
        self.tensors = walk.tensors
        # Attributes and containers with iterators, and the recipes by name or key.
        self._drawing = [(owner, recipes) for owner, recipes in (*self._kept, *walk.containers())
                         if any(map(copies.is_drawn, recipes.values()))] if walk.drawn else []
        self._drawn = walk.drawn
        del self._walk, self._sources, self._classes

    def _add_named_by(self, source):
        """Adds the variables, classes and functions that the code of a class, or a function, names."""
        if source in self._sources:
            return
        self._sources.add(source)
        variables, classes, functions = members.named_by(source)
        for owner in variables:
            self._walk.objects.append((("variables", owner.owner.get("__name__")), owner))
        for cls in (*classes, *(members.classes_of_program(source) if is_a(source, type) else ())):
            if cls not in self._classes:
                self._classes.add(cls)
                self._walk.objects.append((("variables", cls.__qualname__), members.ClassVariables(cls)))
        for function in functions:
            self._walk.function(function, ("functions", function.__qualname__))

    def _keep_module(self, module, path_of):
        for owner in _owners(module):
            self._keep(owner, [(name, value) for name, value in owner.items() if name not in _OF_MODULES
                               and not is_a(value, torch.nn.Parameter)], path_of)

    def _keep(self, owner, items, path_of):
        # Fast path: most attributes are numbers.
        self._kept.append((owner, {name: value if type(value) in IMMUTABLE
                                   else self._walk.recipe(value, name, path_of(name)) for name, value in items}))

    @contextlib.contextmanager
    def drawn(self):
        """A context for the forward, in which attributes and containers keep what the forward takes from iterators."""
        replaced = {}  # id of what replaces a value -> (what replaces the value, value)
        for owner, recipes in self._drawing:
            for key, value in copies.entries_of(owner):
                drawing = copies.drawing(recipes.get(key), value)
                if drawing is not value:
                    replaced[id(drawing)] = drawing, value
                    copies.place(owner, key, drawing)
        try:
            yield
        finally:
            for owner, _ in self._drawing:
                for key, value in copies.entries_of(owner):
                    if id(value) in replaced:
                        copies.place(owner, key, replaced[id(value)][1])
            for drawn in self._drawn:
                drawn.end()
            self._changed = {id(owner): _differing(owner, recipes)
                             for owner, recipes in self._kept if _is_shared(owner)}

    @contextlib.contextmanager
    def restored(self, root):
        """A context with the attributes of the call. At the end, all attributes and buffers are as before the context:
        the program expects the forward's attributes."""
        modules = _modules_in(root)
        owners = [owner for module in modules for owner in _owners(module)]
        owners += [owner for owner, _ in (*self._kept, *self._children)]
        before = [(owner, dict(owner)) for owner in {id(owner): owner for owner in owners}.values()]
        made = {}
        for owner, children in self._children:
            _update(owner, children)
        for owner, recipes in self._kept:
            if _is_shared(owner):  # what the forward changes, and what is another value now
                changed = self._changed.get(id(owner), set()) | _differing(owner, recipes)
                recipes = {name: recipe if name in changed else _NOT_KEPT for name, recipe in recipes.items()}
            _put_back(owner, recipes, made)
        try:
            with self._hooks.restored(modules[1:]):
                yield
        finally:
            for owner, values in before:
                for name in owner.keys() - values.keys():
                    del owner[name]
                _update(owner, values)


class AttributesInCalls:
    """Finds the tensors that a checkpoint would hold of each call of a step because the module replaces attributes."""

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
    """A tensor in an attribute, held until release()."""

    __slots__ = ("_known", "_empty", "_place", "_storage")

    def built(self, inputs):
        if self.tensor is not None:
            return self.tensor
        known = self._known()
        return self._empty if known is None else known

    def release(self):
        """Stops holding the tensor. If the tensor is gone when the region runs again, a stub without memory replaces
        the tensor."""
        tensor = self.tensor
        self._known, self._empty = weakref.ref(tensor), stub(tensor)
        self._place = tensor.shape, tensor.stride(), tensor.storage_offset()
        self._storage = StorageWeakRef(tensor.untyped_storage())  # no other storage gets this address
        self.tensor = None

    def hold(self, alias):
        """Holds the tensor again. If the program kept only a detached tensor, a new view replaces the tensor."""
        self.tensor = self._known()
        if self.tensor is None:
            self.tensor = alias.detach().as_strided(*self._place)


class _AttributeWalk(copies.Walk):
    """Makes the recipes of attributes."""

    def __init__(self, inside=()):
        """`inside` are modules whose attributes are kept anyway."""
        super().__init__(_MOST_IN_ATTRIBUTE)
        for module in inside:
            self._know(module, module)
        self.tensors = []
        self.objects = []  # (path of an attribute, plain object of the program in there)
        self.drawn = []  # Drawn of all iterators
        self._path = None  # of the attribute

    def recipe(self, value, name, path):
        if type(value) is tuple and IMMUTABLE.issuperset(map(type, value)):  # a fast path, as for sizes of kernels
            return value
        if not _is_kept(name, value):
            self.function(value, path)
            return _NOT_KEPT
        found, known = len(self.tensors), len(self._known)
        self._path, self._left = path, _MOST_IN_ATTRIBUTE
        try:
            return self.value(value, None, path)
        except Unrepeatable:  # too many values
            for unfinished in list(self._known)[known:]:
                del self._known[unfinished]
            del self.tensors[found:]
            return _NOT_KEPT

    def value(self, value, above, key, how=copies.FIRST, inside=False):
        kind = kind_of(type(value))
        if kind == copies.ONCE and (attributes_of(value) is None or not members.is_of_program(type(value))):
            if id(value) not in self._known:
                self.drawn.append(self._know(value, Drawn(value)))
            return self._known[id(value)][1]
        if kind in (copies.OBJECT, copies.ONCE):
            if members.is_of_program(type(value)):
                self._add(value)
            return value
        if kind == copies.LEAF:
            self.function(value, self._path)
        return super().value(value, above, key, how, inside)

    def function(self, value, path):
        """Adds a function of the program, the object of a method, or a module that is no child of another one, to the
        objects with attributes."""
        if is_a(value, torch.nn.Module):
            if not members.is_installed(type(value).__module__):
                self._path = path
                self._add(value)
        elif type(value) is types.MethodType and not is_a(value.__self__, type):
            self._path = path
            self.value(value.__self__, None, path)
        elif is_a(value, functools.partial):
            self._path = path
            self._add(value)
            self.function(value.func, path)
        elif type(value) is types.FunctionType and members.function_of(value):
            self._path = path
            self._add(value)

    def containers(self):
        """Yields the visited lists, dicts, sets and deques, and their attributes, with recipes by key."""
        for value, recipe in self._known.values():
            if type(recipe) is Copy and recipe.kind in (copies.LIST, copies.DEQUE):
                yield value, dict(enumerate(recipe.items))
            elif type(recipe) is Copy and recipe.kind in (copies.DICT, copies.SET) and not is_a(value, frozenset):
                yield value, dict(zip(recipe.keys or values_in(value), recipe.items))
            if type(recipe) is Copy and recipe.state:
                yield from ((owner, recipe.state) for owner in members.attributes_in(value))

    def _add(self, thing):
        if len(self.objects) < _MOST_OBJECTS and id(thing) not in self._known:
            self.objects.append((self._path, self._know(thing, thing)))

    def tensor(self, tensor, path, inside):
        self.tensors.append(_HeldAttribute(tensor, self._path))
        return self.tensors[-1]


def _modules_in(root):
    """Returns a module and all inner modules; a program may override modules()."""
    inside = {id(root): root}
    waiting = [root]
    while waiting:
        for child in waiting.pop()._modules.values():
            if child is not None and id(child) not in inside:
                inside[id(child)] = child
                waiting.append(child)
    return list(inside.values())


def _owners(module):
    """Yields the dicts with attributes, with buffers, and with plain tensors in place of parameters, of a module."""
    yield attributes_of(module)
    if module._buffers:
        yield module._buffers
    if torch.Tensor in map(type, module._parameters.values()) and SHARDED not in module.__dict__:
        yield module._parameters


def _hooks_run_again(module, place):
    """Yields the hooks that a recomputation runs again: of inner modules, and of all modules. `place` is the module's
    number; 0: the recomputed module itself."""
    for hooks in (module._forward_pre_hooks, module._forward_hooks) if place else _HOOKS_OF_ALL:
        yield from hooks.values()


def _is_kept(name, value):
    if type(name) is not str:  # fully_shard's own state
        return False
    kind = kind_of(type(value))
    if kind == copies.LEAF:
        return (is_a(value, _CONSTANTS) or type(value).__module__ == "numpy"
                or (type(value) is types.FunctionType and members.function_of(value) is not None))
    return kind != copies.OBJECT or members.is_of_program(type(value))


def _put_back(owner, recipes, made):
    """Gives a module the attributes of the call. Of other attributes, only attributes that are not kept stay."""
    for name in owner.keys() - recipes.keys() - _OF_MODULES:
        if _is_kept(name, owner[name]) and not is_a(owner[name], torch.nn.Parameter):
            del owner[name]
    _update(owner, {name: recipe if type(recipe) in IMMUTABLE else built(recipe, (), made)
                    for name, recipe in recipes.items() if recipe is not _NOT_KEPT})


def _is_shared(owner):
    """Returns whether `owner` has variables of a class or file, which the rest of the program reads, too."""
    return is_a(owner, (members.ClassVariables, members.Globals))


def _differing(owner, recipes):
    """Returns the names of the variables that are not as in the recipes."""
    walk = _AttributeWalk()
    return {name for name, recipe in recipes.items() if recipe is not owner.get(name, _NOT_KEPT)
            and not copies.are_same(recipe, walk.recipe(owner.get(name), name, (id(owner), name)))}


def _update(owner, values):
    for name, value in values.items():
        if owner.get(name, _NOT_KEPT) is not value:
            owner[name] = value
