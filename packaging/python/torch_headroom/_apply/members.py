# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a program beside the attributes of modules: members of objects, classes and functions, and global
variables, as dicts that may be changed. Also the variables that the program's code names, parameters, and statistics of
batch normalisation."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
import warnings
import weakref

import torch

from .._modules import attributes_of, bases_of, is_a, is_compiled, is_plain, storage_of
from .policy import Unrepeatable

HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
IMMUTABLE = frozenset((bool, int, float, str, type(None)))


@functools.lru_cache(maxsize=None)
def slots_of(cls):
    bases = [base for base in reversed(bases_of(cls)) if base.__flags__ & HEAP_TYPE]
    members = {name: member for base in bases for name, member in vars(base).items()}
    return {name: member for name, member in members.items() if isinstance(member, types.MemberDescriptorType)}


def state_of(value):
    """Returns an object's attributes, from __dict__ and slots."""
    state = dict(attributes_of(value) or ())
    for name, member in slots_of(type(value)).items():
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
        return (name for name, slot in slots_of(type(self.owner)).items() if _is_set(slot, self.owner))

    def __getitem__(self, name):
        try:
            return slots_of(type(self.owner))[name].__get__(self.owner)
        except AttributeError:  # the slot is not set
            raise KeyError(name) from None

    def __setitem__(self, name, value):
        slots_of(type(self.owner))[name].__set__(self.owner, value)

    def __delitem__(self, name):
        slots_of(type(self.owner))[name].__delete__(self.owner)


class _Closure(_Members):
    """The variables of outer functions that a function reads, and the function's default arguments."""

    def __init__(self, owner):
        super().__init__(owner)
        self._cells = dict(zip(owner.__code__.co_freevars, owner.__closure__ or ()))

    def __iter__(self):
        return iter([*_DEFAULTS, *(name for name, cell in self._cells.items() if cell != _EMPTY)])

    def __getitem__(self, name):
        return getattr(self.owner, name) if name in _DEFAULTS else self._cells[name].cell_contents

    def __setitem__(self, name, value):
        if name in _DEFAULTS:
            setattr(self.owner, name, value)
        else:
            self._cells[name].cell_contents = value

    def __delitem__(self, name):
        del self._cells[name].cell_contents


_EMPTY, _DEFAULTS = types.CellType(), ("__defaults__", "__kwdefaults__")


class _Bound(_Members):
    """The arguments that a functools.partial passes on."""

    def __iter__(self):
        return iter(("args", "keywords"))

    def __getitem__(self, name):
        return functools.partial.__dict__[name].__get__(self.owner)

    def __setitem__(self, name, value):
        state = {**self, name: value}
        functools.partial.__setstate__(
            self.owner, (self.owner.func, state["args"], state["keywords"], attributes_of(self.owner)))


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


# Caches by class or function. A class that a function makes may hold tensors in closures, so that no cache holds the
# class.
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
    the variables of outer functions, and of a functools.partial the arguments."""
    if type(thing) is types.FunctionType:
        yield _Closure(thing)
    if is_a(thing, functools.partial):
        yield _Bound(thing)
    attributes = attributes_of(thing)
    if attributes is not None:
        yield attributes
    if slots_of(type(thing)) and not is_a(thing, functools.partial):  # whose slots are the arguments, read-only
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
        bool(cls.__flags__ & HEAP_TYPE) and str(cls.__module__).partition(".")[0] not in _MANAGERS)


@functools.lru_cache(maxsize=1024)
def is_installed(name):
    """Returns whether a module is Python's own or of an installed package, whose variables are no state of models."""
    package = str(name).partition(".")[0]
    return package in _MANAGERS or package in sys.stdlib_module_names or "-packages" in str(
        getattr(sys.modules.get(name), "__file__", ""))


def classes_of_program(cls):
    """Returns the class and the bases that the program itself defines."""
    return tuple(base for base in bases_of(cls) if base.__flags__ & HEAP_TYPE and not is_installed(base.__module__))


def named_by(source):
    """Returns the global variables, and the classes, that a function or the functions of a class name, and functions
    called and classes named there; and such functions that may have a state of their own."""
    if source not in _named:
        _named[source] = _find_named(source)
    files, *others = _named[source]
    return files, *([found for found in (known() for known in kind) if found is not None] for kind in others)


def _find_named(source):
    waiting, names, classes, known = [], {}, {}, set()

    def add(value):
        function = function_of(value)
        if function is not None and id(function) not in known and len(waiting) < _MOST_FUNCTIONS:
            known.add(id(function))
            waiting.append(function)
        elif is_a(value, type):
            for cls in classes_of_program(value):
                if cls not in classes:
                    classes[cls] = None
                    for member in list(type.__dict__["__dict__"].__get__(cls).values()):
                        add(member)

    add(source)
    for function in waiting:  # grows meanwhile
        files = [function.__globals__]
        for name in _names_in(function.__code__):
            value = function.__globals__.get(name)
            add(value)
            if is_a(value, types.ModuleType) and not is_installed(value.__name__):
                files.append(vars(value))
        for file in files:
            names.setdefault(id(file), (file, set()))[1].update(_names_in(function.__code__) & file.keys())
    return (tuple(Globals(file, found) for file, found in names.values()), tuple(map(weakref.ref, classes)),
            tuple(map(weakref.ref, filter(_may_have_a_state, waiting))))


def _may_have_a_state(function):
    """Returns whether a function has variables of outer functions, attributes, or default arguments that may change."""
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return (bool(set(function.__code__.co_freevars) - {"__class__"} or vars(function))
            or not IMMUTABLE.issuperset(map(type, defaults)))


def function_of(value):
    """Returns the function of the program that a value is or wraps; None: no function, or of a library."""
    value = value.fget if type(value) is property else getattr(value, "__func__", value) if type(value) in (
        staticmethod, classmethod) else value
    return value if type(value) is types.FunctionType and not is_installed(value.__module__) else None


def _names_in(code):
    inner = (_names_in(constant) for constant in code.co_consts if type(constant) is types.CodeType)
    return frozenset(code.co_names).union(*inner)


_HOOKS = "_forward_pre_hooks", "_forward_hooks"
_MARKS = "_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs", "_forward_hooks_always_called"
_OF_ALL = {name: getattr(torch.nn.modules.module, f"_global{name}", {}) for name in (*_HOOKS, *_MARKS)}


class Hooks:
    """The hooks around the forwards of modules, and of all modules of the process, at one call: a program may register
    hooks for the forward alone."""

    def __init__(self, modules):
        self._known = {id(hooks): dict(hooks) for names in (_HOOKS, _MARKS) for hooks in _hooks_of(modules, names)
                       if hooks}

    @contextlib.contextmanager
    def restored(self, modules):
        """A context with the program's hooks of the call; hooks of libraries stay as now."""
        undo = []
        for hooks in _hooks_of(modules, _HOOKS):
            known, now = self._known.get(id(hooks), {}), dict(hooks)
            if _own(known) != _own(now):
                _replace(hooks, {number: hook for number, hook in known.items() if number in now or _is_own_hook(hook)}
                         | {number: hook for number, hook in now.items() if number in known or not _is_own_hook(hook)})
                undo.append(functools.partial(_replace, hooks, now))
        if undo:
            for marks in _hooks_of(modules, _MARKS):  # by the number of a hook, without effect if there is no such hook
                undo.append(functools.partial(_replace, marks, dict(marks)))
                marks.update(self._known.get(id(marks), {}))
        try:
            yield
        finally:
            for put_back in undo:
                put_back()


def _hooks_of(modules, names):
    yield from (_OF_ALL[name] for name in names)
    for module in modules:
        attributes = attributes_of(module)
        yield from (attributes[name] for name in names)


def _own(hooks):
    return {number: id(hook) for number, hook in hooks.items() if _is_own_hook(hook)} if hooks else {}


def _is_own_hook(hook):
    """Returns whether a hook is a function or an object of the program."""
    while is_a(hook, functools.partial):
        hook = hook.func
    hook = hook.__func__ if type(hook) is types.MethodType else hook
    return function_of(hook) is not None if type(hook) is types.FunctionType else is_of_program(type(hook))


def _replace(target, values):
    target.clear()
    target.update(values)


# FullyShardedDataParallel's mark of modules whose parameters get other data.
SHARDED = "_is_fsdp_managed_module"


class _Count(torch.Tensor):
    """A count of batches to which a recomputation adds nothing, by the op of the forward."""

    def add_(self, *_, **__):
        return super().add_(0)

    __iadd__ = add_


@contextlib.contextmanager
def statistics_kept(root, name):
    """A context for the recomputation of the module `root`: running statistics of batch normalisation, and counts of
    batches, stay as the forward has left them. A second update would make the model evaluate otherwise than after training
    without a policy. Beside modules of torch.compile, with the momentum as a constant of the graph, only warns."""
    modules = list(root.modules())
    norms = [module for module in modules if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)
             and module.training and module.track_running_stats and module.momentum is not None]
    if norms and any(map(is_compiled, modules)):
        warnings.warn(f"module {name}: the recomputation updates running statistics of BatchNorm a second time, since "
                      "torch.compile compiled a part of the module: the model evaluates otherwise than without the policy; "
                      f"plan with --pin {name}=save", stacklevel=2)
        norms = []
    before = [(norm, norm.momentum, norm._buffers.get("num_batches_tracked")) for norm in norms]
    for norm, _, count in before:
        norm.momentum = 0.0  # the statistics of the batch have no weight in the update
        if count is not None:
            norm._buffers["num_batches_tracked"] = count.as_subclass(_Count)
    try:
        yield
    finally:
        for norm, momentum, count in before:
            norm.momentum = momentum
            if count is not None:
                norm._buffers["num_batches_tracked"] = count


class Parameters:
    """The parameters of a module and of all inner modules, at one call. Parameters that a library shards are left out:
    such a library exchanges parameters, or the parameters' data, until backward ends."""

    def __init__(self, root):
        self._known = []  # (dict of a module, name, parameter, whether a gradient is wanted, storage)
        for module in root.modules():
            if module._parameters and SHARDED not in module.__dict__:
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
