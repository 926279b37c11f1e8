# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes for copies of values as at the call of a module: lists, dicts and other objects may change before the module
runs again. Tensors are never copied. Also the attributes of objects and classes, as dicts that may be changed."""

from __future__ import annotations

import collections
import copy as copying
import enum
import functools
import io
import operator
import random
import sys
import types
import weakref

import torch

from .._modules import attributes_of, bases_of, has_member, is_a, keys_of, values_in

CANNOT_RECOMPUTE = ("so that the module cannot run again in backward; give the module a copy (in transformers: "
                    "use_cache=False) and record the step again, or leave the module out of the plan (--pin)")


class Unrepeatable(Exception):
    """Raised if a module cannot run again. `str()` says what is in the way, and why."""


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

LEAF, TENSOR, TUPLE, LIST, DICT, SET, DEQUE, OBJECT, RANDOM, ONCE = range(10)
_LEAVES = (str, bytes, int, float, complex, type(None), torch.Size, torch.nn.Module, torch.optim.Optimizer, type,
           types.ModuleType, types.FunctionType, types.MethodType, enum.Enum, io.IOBase, BaseException)
_CONTAINERS = ((torch.Tensor, TENSOR), (tuple, TUPLE), (list, LIST), (dict, DICT), ((set, frozenset), SET),
               (collections.deque, DEQUE), (torch.Generator, RANDOM))
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
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


def _find_kind(cls):
    if issubclass(cls, (*_LEAVES, random.SystemRandom)):
        return LEAF
    if issubclass(cls, _generators()):
        return RANDOM
    for classes, kind in _CONTAINERS:
        if issubclass(cls, classes):
            return kind
    if has_member(cls, "__next__"):
        return ONCE
    if issubclass(cls, types.SimpleNamespace):
        return OBJECT
    # Python objects are copied. Objects that must be closed, or whose state is in C, are shared.
    if not cls.__flags__ & _HEAP_TYPE or has_member(cls, "__del__"):
        return LEAF
    try:
        object.__new__(cls)
    except TypeError:
        return LEAF
    return OBJECT


@functools.lru_cache(maxsize=None)
def _slots_of(cls):
    bases = [base for base in reversed(bases_of(cls)) if base.__flags__ & _HEAP_TYPE]
    members = {name: member for base in bases for name, member in vars(base).items()}
    return {name: member for name, member in members.items() if isinstance(member, types.MemberDescriptorType)}


def _state_of(value):
    """Returns an object's attributes, from __dict__ and slots."""
    state = dict(attributes_of(value) or ())
    for name, member in _slots_of(type(value)).items():
        try:
            state[name] = member.__get__(value)
        except AttributeError:  # the slot is not set
            pass
    return state


class _Members:
    """Members of an object or a class, as a dict. No base class of Python's: torch.compile would trace the methods."""

    def __init__(self, owner):
        self.owner = owner

    def keys(self):
        return dict.fromkeys(self).keys()

    def items(self):
        return [(name, self[name]) for name in self]

    def get(self, name, default=None):
        try:
            return self[name]
        except KeyError:
            return default


class _Slots(_Members):
    """The slots of an object that are set."""

    def __iter__(self):
        return (name for name, slot in _slots_of(type(self.owner)).items() if _is_set(slot, self.owner))

    def __getitem__(self, name):
        try:
            return _slots_of(type(self.owner))[name].__get__(self.owner)
        except AttributeError:  # the slot is not set
            raise KeyError(name) from None

    def __setitem__(self, name, value):
        _slots_of(type(self.owner))[name].__set__(self.owner, value)

    def __delitem__(self, name):
        _slots_of(type(self.owner))[name].__delete__(self.owner)


class _Closure(_Members):
    """The variables of outer functions that a function reads, and the function's default arguments."""

    def __init__(self, owner):
        super().__init__(owner)
        self._cells = dict(zip(owner.__code__.co_freevars, owner.__closure__ or ()))

    def __iter__(self):
        return iter([_DEFAULTS, *(name for name, cell in self._cells.items() if cell != _EMPTY)])

    def __getitem__(self, name):
        return self.owner.__defaults__ if name == _DEFAULTS else self._cells[name].cell_contents

    def __setitem__(self, name, value):
        if name == _DEFAULTS:
            self.owner.__defaults__ = value
        else:
            self._cells[name].cell_contents = value

    def __delitem__(self, name):
        del self._cells[name].cell_contents


_EMPTY, _DEFAULTS = types.CellType(), "__defaults__"


def _is_set(slot, thing):
    try:
        slot.__get__(thing)
    except AttributeError:
        return False
    return True


class ClassVariables(_Members):
    """The variables of a class, without functions and what Python itself sets."""

    def __init__(self, owner):
        super().__init__(owner)
        self._all = type.__dict__["__dict__"].__get__(owner)

    def __iter__(self):
        return iter(_variables_of(self.owner, len(self._all)))

    def __getitem__(self, name):
        return self._all[name]

    def __setitem__(self, name, value):
        type.__setattr__(self.owner, name, value)

    def __delitem__(self, name):
        type.__delattr__(self.owner, name)


# Caches by class. A class that a function makes may hold tensors in closures, so that no cache holds the class.
_variables, _named = weakref.WeakKeyDictionary(), weakref.WeakKeyDictionary()


def _variables_of(cls, count):
    """Returns the names of the variables of a class that has `count` members."""
    known = _variables.get(cls)
    if known is None or known[0] != count:
        known = _variables[cls] = count, _find_variables(cls)
    return known[1]


def _find_variables(cls):
    members = type.__dict__["__dict__"].__get__(cls)
    return [name for name, value in members.items() if not (name.startswith("__") and name.endswith("__"))
            and not is_a(value, (types.FunctionType, property, classmethod, staticmethod))]


def attributes_in(thing):
    """Yields the attributes of an object, from __dict__ and slots, as dicts that may be changed; of a function also
    the variables of outer functions."""
    if type(thing) is types.FunctionType:
        yield _Closure(thing)
    attributes = attributes_of(thing)
    if attributes is not None:
        yield attributes
    if _slots_of(type(thing)):
        yield _Slots(thing)


class Globals(_Members):
    """The global variables that functions name, as a dict. `owner` is the dict of the functions' file."""

    def __init__(self, owner, names):
        super().__init__(owner)
        self._names = sorted(names)

    def __iter__(self):
        return (name for name in self._names if name in self.owner)

    def __getitem__(self, name):
        return self.owner[name]

    def __setitem__(self, name, value):
        self.owner[name] = value

    def __delitem__(self, name):
        del self.owner[name]


# Packages whose objects manage modules from outside, also while a module runs again, or serve the whole process.
_MANAGERS = frozenset(("torch", "torch_headroom", "deepspeed", "transformer_engine", "megatron", "accelerate",
                       "logging", "threading", "multiprocessing", "concurrent", "asyncio", "queue", "contextlib",
                       "builtins"))
_MOST_FUNCTIONS = 200  # largest number of functions that are read for names of global variables


def is_of_program(cls):
    """Returns whether an object of a class may be the program's state: no object that manages modules."""
    return issubclass(cls, types.SimpleNamespace) or (
        bool(cls.__flags__ & _HEAP_TYPE) and str(cls.__module__).partition(".")[0] not in _MANAGERS)


@functools.lru_cache(maxsize=1024)
def _is_installed(name):
    """Returns whether a module is Python's own or of an installed package, whose variables are no state of models."""
    package = str(name).partition(".")[0]
    return package in _MANAGERS or package in sys.stdlib_module_names or "-packages" in str(
        getattr(sys.modules.get(name), "__file__", ""))


def classes_of_program(cls):
    """Returns the class and the bases that the program itself defines."""
    return tuple(base for base in bases_of(cls) if base.__flags__ & _HEAP_TYPE and not _is_installed(base.__module__))


def named_by(cls):
    """Returns the global variables, and the classes, that the functions of a class name, and functions called there."""
    if cls not in _named:
        _named[cls] = _find_named(cls)
    files, classes = _named[cls]
    return files, [found for found in (known() for known in classes) if found is not None]


def _find_named(cls):
    members = [member for base in classes_of_program(cls)
               for member in type.__dict__["__dict__"].__get__(base).values()]
    waiting = [function for function in map(function_of, members) if function is not None]
    names, classes, known = {}, {}, set(map(id, waiting))
    for function in waiting:  # grows meanwhile
        files = [function.__globals__]
        for name in _names_in(function.__code__):
            value = function.__globals__.get(name)
            inner = function_of(value)
            if inner is not None and id(inner) not in known and len(waiting) < _MOST_FUNCTIONS:
                known.add(id(inner))
                waiting.append(inner)
            elif is_a(value, type):
                classes |= dict.fromkeys(classes_of_program(value))
            elif is_a(value, types.ModuleType) and not _is_installed(value.__name__):
                files.append(vars(value))
        for file in files:
            names.setdefault(id(file), (file, set()))[1].update(_names_in(function.__code__) & file.keys())
    return tuple(Globals(file, found) for file, found in names.values()), tuple(map(weakref.ref, classes))


def function_of(value):
    """Returns the function of the program that a value is or wraps; None: no function, or of a library."""
    value = value.fget if type(value) is property else getattr(value, "__func__", value) if type(value) in (
        staticmethod, classmethod) else value
    return value if type(value) is types.FunctionType and not _is_installed(value.__module__) else None


def _names_in(code):
    inner = (_names_in(constant) for constant in code.co_consts if type(constant) is types.CodeType)
    return frozenset(code.co_names).union(*inner)


class Drawn:
    """An iterator that hands on what another one gives, and keeps the values."""

    __slots__ = ("source", "_values")

    def __init__(self, source):
        self.source, self._values = source, []

    def __iter__(self):
        return self

    def __next__(self):
        self._values.append(next(self.source))
        return self._values[-1]

    def __getattr__(self, name):
        return getattr(self.source, name)

    def again(self):
        """Returns a new iterator over the values."""
        return iter(self._values)


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
    return (one.cls is other.cls and one.kind != RANDOM and one.state.keys() == other.state.keys()
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
        if self.kind == RANDOM:
            return _generator_like(self.option)
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


def _generator_like(generator):
    """Returns a new random number generator with the same state."""
    return (torch.Generator.clone_state if is_a(generator, torch.Generator) else copying.deepcopy)(generator)


def _name_of_key(key, place):
    """Returns a dict's key as a path has the key, hashed and printed: a number if the key's class is the program's."""
    return key if type(key) in (str, bytes, int, float, bool, type(None)) else f"number {place + 1}"


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
        if kind == RANDOM:
            return Copy(kind, cls, _generator_like(value))
        option = (collections.deque.maxlen.__get__(value) if kind == DEQUE
                  else _DEFAULT.__get__(value) if issubclass(cls, collections.defaultdict) else None)
        copy = self._know(value, Copy(kind, cls, option))  # registered first: an object may contain itself
        if kind != OBJECT:
            values = values_in(value)
            copy.keys = keys_of(value) if kind == DICT else ()
            names = map(_name_of_key, copy.keys, range(len(values))) if kind == DICT else range(len(values))
            copy.items = self._values(values, names, path, inside)
        state = _state_of(value)
        self._count(len(state), path)
        copy.state = {name: self.value(item, path, name, ATTRIBUTE, True) for name, item in state.items()}
        is_mark = kind == OBJECT and not state  # a marker, which code compares by identity
        return value if is_mark else copy

    def _values(self, values, keys, path, inside):
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
    slots = _slots_of(value.cls)
    for name, item in value.state.items():
        item = built(item, inputs, made)
        if name in slots:
            slots[name].__set__(copy, item)
        else:
            attributes_of(copy)[name] = item
    return copy
