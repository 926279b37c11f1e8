# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a checkpoint keeps of a module's call until backward: the arguments and the attributes, as at the call.

A region's forward gets the program's own objects, so that the program sees every change. The recomputation gets copies
of the mutable arguments as at entry. Tensors are never copied. Tensors in lists, tuples and dicts are held until
backward, as the planner counts. Of tensors in other objects (a cache with the keys and values of all layers), only
tensors that the region read are held; a stub without memory replaces each other tensor.

Attributes and buffers of the region's modules are kept, too. A forward may replace attributes (a state from call to
call, a count, a list to which the forward appends), and the recomputation begins with the attributes of the call.
Tensors, numbers, strings, random number generators and containers of such values are kept. Of a plain object of the
program (a dataclass with a count), the attributes are kept, and the object stays the same; so are class variables of
modules and of such objects, and so are the variables of functions in attributes and of hooks that a recomputation runs
again. What a forward takes from an iterator is given to the recomputation again. A tensor in an attribute is held only
if the region reads the tensor. All tensors of an attribute have one path. A plain tensor in the
place of a parameter (torch.func.functional_call) is kept as an attribute; Parameters keeps the rest.
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
from .copies import CANNOT_RECOMPUTE, Copy, Drawn, Held, Unrepeatable, built, kind_of, stub

_MOST_IN_ARGUMENTS = 100_000  # largest number of values in the arguments of one call


class Arguments:
    """The arguments of one call. `inputs` are the tensors for checkpoint(), which returns them in backward."""

    def __init__(self, forward, args, kwargs):
        self._forward = forward
        self.inputs, places = _checkpoint_inputs(args, kwargs)
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
    return kind != copies.LEAF and not (kind == copies.TENSOR and is_plain(cls))


def _parts_of(tensor):
    """Returns the plain tensors that hold the memory of a tensor."""
    if not is_traceable_wrapper_subclass(tensor):
        return [tensor]
    return [part for inner in inner_tensors(tensor) for part in _parts_of(inner)]


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


def _checkpoint_inputs(args, kwargs):
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
_SHARDED = "_is_fsdp_managed_module"  # FullyShardedDataParallel's mark of modules whose parameters get other data
_HOOKS_OF_ALL = (torch.nn.modules.module._global_forward_pre_hooks, torch.nn.modules.module._global_forward_hooks)
_IMMUTABLE = frozenset((bool, int, float, str, type(None)))
_NUMBERS_AND_TEXTS = (str, bytes, int, float, complex, type(None), torch.Size, enum.Enum)
_NOT_KEPT = object()


class Attributes:
    """The attributes of a module and of all inner modules, and what hooks of inner modules keep, at one call."""

    def __init__(self, root):
        walk = self._walk = _AttributeWalk()
        self._kept = []  # (dict of a module, or attributes of an object or class; recipes by name)
        self._changed = {}  # id of the variables of a class or file -> names that the forward changed, after drawn()
        for place, owner in _owners(root):
            self._keep(owner, [(name, value) for name, value in owner.items() if name not in _OF_MODULES
                               and not is_a(value, torch.nn.Parameter)], lambda name, place=place: (place, name))
        for path, hook in _hooks_run_again(root):
            walk.recipe(hook, path[1], path)
        kinds = dict.fromkeys(map(type, root.modules()))
        for path, thing in walk.objects:  # grows meanwhile
            kinds[thing if type(thing) is types.FunctionType else type(thing)] = None
            for owner in members.attributes_in(thing):
                self._keep(owner, owner.items(), lambda _, path=path: path)
        classes = dict.fromkeys(base for kind in kinds if is_a(kind, type)
                                for base in members.classes_of_program(kind))
        variables = []
        for kind in kinds:
            named, others = members.named_by(kind)
            variables += named
            classes |= dict.fromkeys(others)
        for place, owner in enumerate([*variables, *map(members.ClassVariables, classes)]):
            path = "variables", place  # the same one in each call
            self._keep(owner, owner.items(), lambda name, path=path: (path, name))
        self.tensors = walk.tensors
        # Attributes and containers with iterators, and the recipes by name or key.
        self._drawing = [(owner, recipes) for owner, recipes in (*self._kept, *walk.containers())
                         if any(map(copies.is_drawn, recipes.values()))] if walk.drawn else []
        self._drawn = walk.drawn
        del self._walk

    def _keep(self, owner, items, path_of):
        # Fast path: most attributes are numbers.
        self._kept.append((owner, {name: value if type(value) in _IMMUTABLE
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
        owners = [owner for _, owner in _owners(root)] + [owner for owner, _ in self._kept]
        before = [(owner, dict(owner)) for owner in {id(owner): owner for owner in owners}.values()]
        made = {}
        for owner, recipes in self._kept:
            if _is_shared(owner):  # what the forward changes, and what is another value now
                changed = self._changed.get(id(owner), set()) | _differing(owner, recipes)
                recipes = {name: recipe if name in changed else _NOT_KEPT for name, recipe in recipes.items()}
            _put_back(owner, recipes, made)
        try:
            yield
        finally:
            for owner, values in before:
                for name in owner.keys() - values.keys():
                    del owner[name]
                _update(owner, values)


class Parameters:
    """The parameters of a module and of all inner modules, at one call. Parameters that a library shards are left out:
    such a library exchanges parameters, or the parameters' data, until backward ends."""

    def __init__(self, root):
        self._known = []  # (dict of a module, name, parameter, whether a gradient is wanted, storage)
        for module in root.modules():
            if module._parameters and _SHARDED not in module.__dict__:
                self._known += [(module._parameters, name, weakref.ref(value), value.requires_grad, storage_of(value))
                                for name, value in module._parameters.items() if _is_own(value)]

    def check(self, when):
        """Raises Unrepeatable if a parameter is gone or has got other data since the call began."""
        for _, name, known, _, data in self._known:
            value = known()
            if value is None or storage_of(value) != data:
                raise Unrepeatable(f"the parameter `{name}` is replaced {when}, or the parameter's `.data` is, so that "
                                   "a recomputation in backward would read other values; leave the module out of the "
                                   "plan (--pin)")

    @contextlib.contextmanager
    def restored(self):
        """A context in which the modules have the parameters of the call, and each wants a gradient as at the call: a
        program may freeze a part of a model, or put back what functional_call() replaced, before backward."""
        undo = []
        for owner, name, known, wants, _ in self._known:
            value, now = known(), owner.get(name)
            if now is not value and (now is None or _is_plain_tensor(now)):
                undo.append(functools.partial(owner.__setitem__, name, now))
                owner[name] = value
            if value.requires_grad != wants:
                undo.append(functools.partial(value.requires_grad_, not wants))
                value.requires_grad_(wants)
        try:
            yield
        finally:
            for put_back in reversed(undo):
                put_back()


def _is_own(value):
    """Returns whether a parameter changes only if the program changes the parameter."""
    return (value is not None and is_a(value, torch.nn.Parameter) and _is_plain_tensor(value)
            and "ds_id" not in attributes_of(value))  # DeepSpeed's mark of partitioned parameters


def _is_plain_tensor(value):
    return is_plain(type(value)) and value.layout == torch.strided


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

    def __init__(self):
        super().__init__(_MOST_IN_ATTRIBUTE)
        self.tensors = []
        self.objects = []  # (path of an attribute, plain object of the program in there)
        self.drawn = []  # Drawn of all iterators
        self._path = None  # of the attribute

    def recipe(self, value, name, path):
        if type(value) is tuple and _IMMUTABLE.issuperset(map(type, value)):  # a fast path, as for sizes of kernels
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
        """Adds a function of the program, or the object of a method, to the objects with attributes."""
        if type(value) is types.MethodType and not is_a(value.__self__, (torch.nn.Module, type)):
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


def _owners(root):
    """Yields the dicts with attributes, with buffers, and with plain tensors in place of parameters, of a module and
    all inner modules, after the module's number."""
    found, waiting = {id(root)}, [root]
    while waiting:
        module = waiting.pop()
        yield len(found) - len(waiting), attributes_of(module)
        if module._buffers:
            yield len(found) - len(waiting), module._buffers
        if torch.Tensor in map(type, module._parameters.values()) and _SHARDED not in module.__dict__:
            yield len(found) - len(waiting), module._parameters
        for child in module._modules.values():
            if child is not None and id(child) not in found:
                found.add(id(child))
                waiting.append(child)


def _hooks_run_again(root):
    """Yields the hooks that a recomputation of a module runs again, of inner modules and of all modules, after a
    path."""
    for place, module in enumerate(root.modules()):
        own = (module._forward_pre_hooks, module._forward_hooks) if place else _HOOKS_OF_ALL
        for hook in (hook for hooks in own for hook in hooks.values()):
            yield (("hooks", place), getattr(hook, "__name__", "hook")), hook


def _is_kept(name, value):
    if type(name) is not str:  # fully_shard's own state
        return False
    kind = kind_of(type(value))
    if kind == copies.LEAF:
        return is_a(value, _NUMBERS_AND_TEXTS)
    return kind != copies.OBJECT or members.is_of_program(type(value))


def _put_back(owner, recipes, made):
    """Gives a module the attributes of the call. Of other attributes, only attributes that are not kept stay."""
    for name in owner.keys() - recipes.keys() - _OF_MODULES:
        if _is_kept(name, owner[name]) and not is_a(owner[name], torch.nn.Parameter):
            del owner[name]
    _update(owner, {name: recipe if type(recipe) in _IMMUTABLE else built(recipe, (), made)
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
