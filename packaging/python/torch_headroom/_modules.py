# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Models, optimizers and tensors of a program, found without the program's help; names of modules, categories of memory
by number (Category in core/trace/step_trace.h), and the parts of tensors like DTensor for the library
(core/record/shadow_save.cpp).

Values of the program are read without running code of the program. A class may derive from tuple, list or dict and
override len(), iteration, values() or comparison, and an object may have properties or a __getattr__ that compute."""

import collections
import contextlib
import copy
import functools
import gc
import threading
import types
import weakref

import torch
from torch.nn.parameter import UninitializedTensorMixin

from ._torch import compiling, keep_ragged_size, patch_around

_MRO = type.__dict__["__mro__"]
_READERS = ((dict, dict.values), (tuple, tuple.__iter__), (list, list.__iter__), (set, set.__iter__),
            (frozenset, frozenset.__iter__), (collections.deque, collections.deque.__iter__))


def is_a(value, kinds):
    """Returns isinstance(value, kinds) for the class that `value` has: isinstance() also asks a `__class__` that the
    program computes, as proxies do."""
    return issubclass(type(value), kinds)


def bases_of(cls):
    """Returns the classes from which a class derives, itself first."""
    return _MRO.__get__(cls)


def has_member(cls, name):
    """Returns whether a class or one of its bases defines `name`."""
    return any(name in type.__dict__["__dict__"].__get__(base) for base in bases_of(cls))


def values_in(container):
    """Returns the values in a tuple, list, dict, set or deque as a list, in the order of the built-in class."""
    cls = type(container)
    if issubclass(cls, collections.OrderedDict):
        return list(collections.OrderedDict.values(container))
    return list(next(read for kind, read in _READERS if issubclass(cls, kind))(container))


def keys_of(mapping):
    """Returns the keys of a dict as a list, in the order of values_in()."""
    is_ordered = issubclass(type(mapping), collections.OrderedDict)
    return list((collections.OrderedDict if is_ordered else dict).__iter__(mapping))


def attributes_of(thing):
    """Returns the dict with the attributes of an object, which may be changed; None: the object has none."""
    for base in bases_of(type(thing)):
        found = type.__dict__["__dict__"].__get__(base).get("__dict__")
        if type(found) in (types.GetSetDescriptorType, types.MemberDescriptorType):  # not a property of the program
            return found.__get__(thing)
    return None


_hooks_of_all = torch.nn.modules.module._global_forward_pre_hooks
_eval_frame_callback = torch._C._dynamo.eval_frame.get_eval_frame_callback
_PLAIN = {torch.Tensor: True, torch.nn.Parameter: True}


def is_plain(kind):
    """Returns whether tensors of this class are plain: the class overrides no ops."""
    known = _PLAIN.get(kind)
    if known is None:
        plain_functions = torch.Tensor.__torch_function__, torch._C._disabled_torch_function_impl
        known = _PLAIN[kind] = (kind.__torch_dispatch__ is torch.Tensor.__torch_dispatch__
                                and kind.__torch_function__ in plain_functions)
    return known


def _collect(value, found, above=()):
    # Fast path: a model's calls have many values, most of few classes.
    if _PLAIN.get(type(value)):
        found.append(value)
    elif is_a(value, torch.Tensor):
        found.extend(plain_parts(value))
    elif is_a(value, (tuple, list, dict)) and id(value) not in above:  # also model outputs in transformers
        above = *above, id(value)
        for item in values_in(value):
            _collect(item, found, above)


def plain_parts(tensor):
    """Returns the plain tensors that make up this process's part of a tensor: the tensor itself, or the parts of a
    class like DTensor."""
    if is_plain(type(tensor)):
        return [tensor]
    if not hasattr(type(tensor), "__tensor_flatten__"):
        return []
    return [plain for part in inner_tensors(tensor) for plain in plain_parts(part)]


def inner_tensors(tensor):
    """Returns the tensors inside a wrapper. From torch 2.12 on, a DTensor also lists a mesh, which is no tensor."""
    inner = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
    return [part for part in inner if isinstance(part, torch.Tensor)]


def tensors_of(value):
    """Returns the tensors in nested tuples, lists and dicts, in order."""
    found = []
    _collect(value, found)
    return found


def state_tensors(optimizer):
    """Returns the tensors that an optimizer keeps between steps."""
    return tensors_of(list(optimizer.state.values()))


_KINDS = (torch.nn.Module, torch.optim.Optimizer)
_born = None  # kind -> (id -> weak reference), in the order of creation; None: not watched yet


def watch():
    """Registers modules and optimizers from creation on. Call before a program creates any."""
    global _born
    if _born is not None:
        return
    _born = {kind: {} for kind in _KINDS}
    for kind in _KINDS:
        for name in ("__init__", "__setstate__"):  # the latter for copies and unpickled objects
            patch_around(kind, name, before=functools.partial(_note_first, _born[kind]))


def _note_first(known, thing, *_, **__):
    if id(thing) not in known and not compiling.now:
        _note(known, thing)


def _note(known, thing):
    number = id(thing)
    known[number] = weakref.ref(thing, lambda _: known.pop(number, None))


def _watch_from_here():
    """Does the work of watch() after the program created modules and optimizers. The search takes longer than recording
    a small model and is done only once: a million objects, few classes."""
    watch()
    # type(), not isinstance(): a proxy computes `__class__` by code of the program.
    objects = gc.get_objects()
    kinds = set(map(type, objects))
    for kind in _KINDS:
        classes = {found for found in kinds if issubclass(found, kind)}
        for thing in objects:
            if type(thing) in classes:
                _note(_born[kind], thing)


def _living(kind):
    """Returns every living module or optimizer of the process, even if never called."""
    if _born is None:
        _watch_from_here()
    return [thing for thing in (known() for known in list(_born[kind].values())) if thing is not None]


def _has_own_groups(optimizer):
    # A wrapper, such as accelerate's, is an Optimizer too, but the inner optimizer makes the step.
    return "param_groups" in vars(optimizer)


def parameters_of(module):
    """Yields the parameters of a module and of all modules inside of it; a program may override parameters()."""
    known, waiting = {id(module)}, [module]
    while waiting:
        inner = waiting.pop()
        yield from (parameter for parameter in inner._parameters.values() if parameter is not None)
        for child in inner._modules.values():
            if child is not None and id(child) not in known:
                known.add(id(child))
                waiting.append(child)


def _has_parameters(module):
    return any(True for _ in parameters_of(module))


def is_compiled(module):
    """Returns whether the module is torch.compile()'s wrapper of the program's own."""
    return type(module).__name__ == "OptimizedModule"


def in_larger_graph():
    """Returns whether torch.compile compiles what is called now, as a part of something that was called before."""
    return _eval_frame_callback() not in (None, False)


def without_compilation(module):
    while is_compiled(module):
        module = module._modules["_orig_mod"]
    return module


def has_hooks(module):
    return bool(module._forward_pre_hooks or module._forward_hooks or module._backward_hooks
                or module._backward_pre_hooks)


class _Around(functools.partial):
    """Replaces the forward of a module, and equals the forward for code that inspects, copies or pickles."""

    def __new__(cls, module, around):
        made = super().__new__(cls, around, module.forward)
        made._module, made.__wrapped__ = module, module.forward
        made._copies = []  # weak references to copies of the module
        return made

    def __getattr__(self, name):
        return getattr(self.__wrapped__, name)

    def __deepcopy__(self, memo):
        forward = self.__wrapped__
        copied = memo.get(id(self._module))
        if copied is None or getattr(forward, "__self__", None) is not self._module:
            return copy.deepcopy(forward, memo)
        self._copies.append(weakref.ref(copied))
        return types.MethodType(forward.__func__, copied)

    def __reduce__(self):
        forward = self.__wrapped__
        if getattr(forward, "__func__", None) is type(self._module).forward:
            return getattr, (self._module, "forward")
        return copy.copy, (forward,)

    def leave_copies(self):
        """Takes from the copies of the module the forward that the copies would not have without the replacement."""
        for known in self._copies:
            copied = known()
            if copied is not None and getattr(copied.__dict__.get("forward"), "__func__", None) is type(copied).forward:
                del copied.__dict__["forward"]


@contextlib.contextmanager
def around_forward(module, around):
    """Replaces the module's forward by around(forward, …) inside the context. The module's call reads the forward
    before the call runs hooks. The hooks see the module's own forward: a hook of all modules runs first and puts the
    own forward back."""
    own = module.__dict__.get("forward")
    ours = module.__dict__["forward"] = _Around(module, around)
    thread = threading.get_ident()
    key = f"headroom {id(ours)}"

    def put_back(called=module, *_):
        if called is not module or threading.get_ident() != thread:
            return
        _hooks_of_all.pop(key, None)
        if module.__dict__.get("forward") is not ours:
            return
        if own is None:
            del module.__dict__["forward"]
        else:
            module.__dict__["forward"] = own

    # A trace reads the forward only after the hooks, and a graph of torch.compile would have the replacement.
    compiles = is_compiled(module) or module._compiled_call_impl is not None or in_larger_graph()
    if not (compiles or torch._C._get_tracing_state()):
        _hooks_of_all[key] = put_back
        _hooks_of_all.move_to_end(key, last=False)
    try:
        yield
    finally:
        put_back()
        ours.leave_copies()


class Inventory:
    """The living models (modules that no other module holds) and optimizers of the process. A script creates some after
    the first call of a module, and drops others."""

    def __init__(self):
        self._called = []  # weak references to modules whose call began a step, in order
        self._stepped = weakref.WeakSet()  # optimizers that made a step

    def add_root(self, module):
        """Adds a module that no other module calls. The first added module is the main model."""
        module = without_compilation(module)
        if all(module is not known() for known in self._called):
            self._called.append(weakref.ref(module))

    def add_optimizer(self, optimizer):
        self._stepped.add(optimizer)

    def optimizers(self):
        """Returns the optimizers in the order of creation."""
        found = [optimizer for optimizer in _living(torch.optim.Optimizer) if _has_own_groups(optimizer)]
        known = set(map(id, found))
        return found + [optimizer for optimizer in list(self._stepped) if id(optimizer) not in known]

    def roots(self):
        """Returns the models with parameters, the main model first. A module inside another module, perhaps only since
        the first call, is left out."""
        called = [module for module in (known() for known in self._called) if module is not None]
        born = [module for module in _living(torch.nn.Module) if not is_compiled(module)]
        children = [child for module in born for child in (module.__dict__.get("_modules") or {}).values()]
        inner = {id(without_compilation(child)) for child in children}
        # Unpickling may bypass nn.Module's methods, so called modules are added: a called module may not be registered.
        outer = {id(module): module for module in born + called if id(module) not in inner}
        roots = [module for module in outer.values() if _has_parameters(module)]
        main = next((module for module in called if any(module is root for root in roots)), None)
        return sorted(roots, key=lambda root: root is not main)


def _class_name(module):
    """Returns the name of the user's class. fully_shard derives a class from the user's class and FSDPModule."""
    kind = type(module)
    is_made = len(kind.__bases__) == 2 and kind.__bases__[0].__module__.startswith("torch.distributed.")
    return (kind.__bases__[1] if is_made else kind).__name__


def _partition(parameter):
    """Returns this process's part of a parameter that DeepSpeed's ZeRO-3 has partitioned; the parameter is empty."""
    part = getattr(parameter, "ds_tensor", None)
    return [] if part is None else [part]


def names_of(roots):
    """Yields the name of each model in a step, and the model. The name is the name of the class, numbered from the
    second model of a class on."""
    used = {}
    for root in roots:
        name = _class_name(root)
        used[name] = used.get(name, 0) + 1
        yield name + (f"_{used[name]}" if used[name] > 1 else ""), root


class ModuleNames:
    """The numbered module tree of a step: one model under the name of the class, or several models under a common root.
    The tree keeps no module alive, since a program may drop a model within a step, for example after running out of
    memory."""

    def __init__(self, roots, numbers):
        """Adds the modules to `numbers`, an empty dict, and removes a module that dies: id(module) -> number."""
        self.numbers = numbers
        self._compiled = []  # weak references
        self._modules = []  # (fqn, type, parent's number or -1, weak reference or None), parents first
        parent = -1
        if len(roots) > 1:
            self._modules.append(("models", "Models", -1, None))
            parent = 0
        for name, root in names_of(roots):
            self._add_tree(root, name if parent < 0 else f"models.{name}", parent)
        for module in filter(is_compiled, _living(torch.nn.Module)):
            if id(without_compilation(module)) in self.numbers:
                self._compiled.append(self._numbered(module, self.numbers[id(without_compilation(module))]))

    def _add_tree(self, root, prefix, parent):
        """Adds modules in the order of root.named_modules(), which would pass each module through one generator per
        level."""
        waiting = [(prefix, parent, root)]
        while waiting:
            fqn, above, module = waiting.pop()
            if id(module) in self.numbers:
                continue
            number = len(self._modules)
            self._modules.append((fqn, _class_name(module), above, self._numbered(module, number)))
            children = [(f"{fqn}.{name}", number, without_compilation(child)) for name, child in module._modules.items()
                        if child is not None]
            waiting.extend(reversed(children))

    def _numbered(self, module, number):
        numbers, key = self.numbers, id(module)
        numbers[key] = number
        return weakref.ref(module, lambda _: numbers.pop(key, None))

    @property
    def has_modules(self):
        return bool(self._modules)

    def name_of(self, number):
        """Returns the FQN of a module."""
        return self._modules[number][0]

    def models(self):
        """Returns the numbers of the whole models."""
        return {number for number, (name, _, _, _) in enumerate(self._modules)
                if "." not in name.removeprefix("models.")}

    def outermost(self, numbers):
        """Returns the FQNs of the modules among `numbers` that are inside of no other such module."""
        def is_inside(number):
            parent = self._modules[number][2]
            return parent >= 0 and (parent in numbers or is_inside(parent))

        return [self.name_of(number) for number in sorted(numbers) if not is_inside(number)]

    def living(self):
        """Yields the number of each living module, and the module."""
        for number, (_, _, _, known) in enumerate(self._modules):
            module = known and known()
            if module is not None:
                yield number, module

    def declare(self, library, registered):
        """Declares the modules and their parameters and buffers to the library."""
        for fqn, kind, parent, _ in self._modules:
            library.headroom_recording_module(fqn.encode(), kind.encode(), parent)
        owners, names, held, kinds = [], [], [], []
        owners_of_wrapped, wrapped = [], []
        for number, module in self.living():
            for tensors, is_buffer in ((module._parameters, False), (module._buffers, True)):
                for name, tensor in tensors.items():
                    if tensor is None or isinstance(tensor, UninitializedTensorMixin):
                        continue
                    if not is_plain(type(tensor)):
                        owners_of_wrapped.append(number)
                        wrapped.append(tensor)
                    for part in [*plain_parts(tensor), *_partition(tensor)]:
                        owners.append(number)
                        names.append(name)
                        held.append(part)
                        kinds.append(is_buffer)
        registered(owners, names, held, kinds)
        if wrapped:
            with torch._C.DisableTorchFunctionSubclass():
                torch.ops.torch_headroom.wrapped.default(owners_of_wrapped, wrapped)


def storage_of(tensor):
    """Returns a number for the storage of a plain tensor, without a draw of deferred values."""
    return torch._C._storage_id(tensor) if torch._C._has_storage(tensor) else id(tensor)


def leaves_of(optimizers, parameters):
    """Returns the tensors that optimizers update and that are no parameters of modules: pairs of a plain tensor and a
    category. Masters of parameters in half precision, of the same shape or flat, belong to the optimizer; other tensors
    are parameters, as of a scene of points."""
    known = {id(parameter) for parameter in parameters} | {storage_of(parameter)
                                                           for parameter in parameters if is_plain(type(parameter))}
    halves = {parameter.shape for parameter in parameters if parameter.dtype in (torch.float16, torch.bfloat16)}
    found = []
    for tensor in tensors_of([group["params"] for optimizer in optimizers for group in optimizer.param_groups]):
        if id(tensor) in known or not is_plain(type(tensor)) or storage_of(tensor) in known:
            continue
        is_master = halves and tensor.dtype == torch.float32 and (tensor.dim() == 1 or tensor.shape in halves)
        found.append((tensor, OPTIMIZER if is_master else PARAMETER))
    return found


PARAMETER, GRADIENT, OPTIMIZER, UNSHARDED_PARAMETER, UNSHARDED_GRADIENT, COMMUNICATION = 0, 2, 5, 9, 10, 11


# The library defines the operator, and calls the operator for a gradient that is a wrapper, such as a DTensor.
_library = torch.library.Library("torch_headroom", "IMPL")


@functools.cache
def implement_retype_parts():
    """Implements the operator, after the library is loaded."""
    for key in ("CompositeImplicitAutograd", "Fake"):
        _library.impl("retype_parts", lambda tensor, category: retype([tensor], category), key)


def retype(held, category):
    """Sets the category of the tensors in nested lists, which may contain None."""
    if tensors := tensors_of(held):
        torch.ops.torch_headroom.retype.default(tensors, category)


def _parts(tensor):
    return [] if is_plain(type(tensor)) else plain_parts(tensor)


def _with_parts(tensor, parts):
    with torch.no_grad():
        return _made(tensor, iter(parts)).requires_grad_(False)


def _made(tensor, parts):
    if is_plain(type(tensor)):
        return next(parts)
    names, context = tensor.__tensor_flatten__()
    inner = {name: getattr(tensor, name) for name in names}
    wrapped = set(map(id, inner_tensors(tensor)))
    made = {name: _made(part, parts) if id(part) in wrapped else part for name, part in inner.items()}
    keep_ragged_size(tensor, inner, made)
    return type(tensor).__tensor_unflatten__(made, context, tensor.size(), tensor.stride())


@functools.lru_cache(maxsize=None)
def implement_parts():
    library = torch.library.Library("torch_headroom", "FRAGMENT")
    for schema, function in (("parts(Tensor tensor) -> Tensor[]", _parts),
                             ("with_parts(Tensor tensor, Tensor[] parts) -> Tensor", _with_parts)):
        library.define(schema)
        library.impl(schema.partition("(")[0], function, "CompositeImplicitAutograd")
    return library  # the registrations live as long as this object
