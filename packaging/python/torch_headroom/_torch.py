# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PyTorch's functions and state: patches around functions, changes of modules after the import, compilations, hooks of
optimizers, and what a thread runs now."""

import contextlib
import functools
import importlib.abc
import importlib.util
import sys
import weakref

import torch
import torch.utils.checkpoint
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook


def around(before=None, after=None):
    """Returns a decorator. The decorated function also calls `before` and `after`, with the same arguments."""

    def decorate(function):
        @functools.wraps(function)
        def call(*arguments, **named):
            if before:
                before(*arguments, **named)
            result = function(*arguments, **named)
            if after:
                after(*arguments, **named)
            return result

        return call

    return decorate


def patch_around(owner, name, before=None, after=None):
    """Decorates a function of a class or module in place."""
    setattr(owner, name, around(before, after)(getattr(owner, name)))


class Compiling:
    """Tells when PyTorch compiles: code that runs then is not the program's. Listeners are called with True when a
    compilation begins, and with False when the compilation has ended."""

    def __init__(self):
        self.listeners = []
        self.now = False
        self.count = 0  # number of compilations
        self.graphs = 0  # number of runs of compiled graphs in this step

    def tell(self, begins):
        self.now = begins
        self.count += begins
        for listener in self.listeners:
            listener(begins)


compiling = Compiling()


def follow_compilations(module):
    """Follows compilations. Call once, after the import of torch._dynamo.callback. The function replaces methods, since
    torch._dynamo.reset() removes registered callbacks."""
    for name, begins in (("run_start_callbacks", True), ("run_end_callbacks", False)):
        patch_around(module.CompilationCallbackHandler, name, before=functools.partial(_tell_compilation, begins))


def _tell_compilation(begins, _, arguments):
    if arguments.callback_trigger.name != "CUDAGRAPH_RECORDING":  # the recording of a graph runs the program's code
        compiling.tell(begins)


_changes = {}  # name of a module -> functions that change the module after its import


def change_after_import(name, change):
    """Calls `change` with the module of this name: now if the module is imported, otherwise after its import, in a
    process that calls follow_imports()."""
    if name in sys.modules:
        change(sys.modules[name])
    else:
        _changes.setdefault(name, []).append(change)


def follow_imports(stub_of, contexts):
    """Follows the program's imports, for change_after_import(). `stub_of(name)` returns the spec of a stub for a
    module, or None. `contexts` maps the name of a module to a function that makes the context of the import."""
    sys.meta_path.insert(0, _Finder(stub_of, contexts))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules that have stubs, or that are changed after their import. Other searches by the program pass: the
    answer whether a module is installed stays true."""

    def __init__(self, stub_of, contexts):
        self._stub_of, self._contexts = stub_of, contexts
        self._is_searching = False

    def find_spec(self, name, path=None, target=None):
        if self._is_searching:
            return None
        self._is_searching = True
        try:
            stub = self._stub_of(name)
            spec = None if stub or name not in _changes else importlib.util.find_spec(name)
        finally:
            self._is_searching = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._contexts.get(name, contextlib.nullcontext))
        return stub or spec


class _Loader(importlib.abc.Loader):
    """Loads a module, and changes the module afterwards."""

    def __init__(self, loader, context):
        self._loader, self._context = loader, context

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        with self._context():
            self._loader.exec_module(module)
        for change in _changes[module.__name__]:
            change(module)


def substitute(substitutes):
    """Replaces copies in torch's modules, made by `from torch._C import …`."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("torch") or module is torch._C:
            continue
        for key, value in list(getattr(module, "__dict__", {}).items()):
            if id(value) in substitutes:
                setattr(module, key, substitutes[id(value)])


_before, _after = {}, {}  # hook -> registered function
_stepping = weakref.WeakSet()  # optimizers that run a step and have called the hooks
_traced = []  # optimizers whose step is in the next graph to be compiled


def before_steps(hook):
    """Registers a hook before the steps of all optimizers, including steps inside compiled functions: tracing skips the
    hooks, and the compiled graph with the step calls the hooks when the graph runs. Returns the function that removes
    the hook."""
    return _register(hook, _before, register_optimizer_step_pre_hook, _stepping.add)


def after_steps(hook):
    return _register(hook, _after, register_optimizer_step_post_hook, _stepping.discard)


def _register(hook, known, register, follow):
    def call(optimizer, args, kwargs):
        if torch.compiler.is_compiling():
            return None
        follow(optimizer)
        return hook(optimizer, args, kwargs)

    handle = register(call)
    known[hook] = call
    change_after_import("torch._dynamo.eval_frame", _leave_out)

    def remove():
        known.pop(hook, None)
        handle.remove()

    return remove


def _leave_out(module):
    """Keeps Dynamo from compiling the hooks when eager code calls them."""
    for call in (*_before.values(), *_after.values()):
        module.skip_code(call.__code__)


def untraced(hook):
    """Returns a hook of autograd that Dynamo does not trace. Autograd also calls hooks inside of compiled calls."""
    return torch.compiler.disable(hook) if "torch._dynamo" in sys.modules else hook


def patch_optimizer_steps():
    change_after_import("torch._dynamo.variables.optimizer", _note_steps)
    change_after_import("torch._inductor.output_code", _call_from_graphs)


def _note_steps(module):
    def note(variable, tx, name, *_, **__):
        if name == "_init_group" and not any(variable.value is known for known in _traced):
            _traced.append(variable.value)

    patch_around(module.OptimizerVariable, "call_method", before=note)


def _call_from_graphs(module):
    graph = module.CompiledFxGraph
    run = graph.__call__

    def take_traced(self, *_):
        self.headroom_optimizers = tuple(_traced)
        _traced.clear()

    def run_with_hooks(self, inputs):
        optimizers = [optimizer for optimizer in getattr(self, "headroom_optimizers", ()) if optimizer not in _stepping]
        _call_hooks(_before, optimizers)
        try:
            return run(self, inputs)
        finally:
            _call_hooks(_after, optimizers)

    patch_around(graph, "post_compile", after=take_traced)
    graph.__call__ = run_with_hooks


def _call_hooks(hooks, optimizers):
    for optimizer in optimizers:
        for hook in list(hooks):
            hook(optimizer, (optimizer,), {})


def in_backward():
    return torch._C._current_graph_task_id() != -1


def in_transform():
    """Returns whether vmap, torch.func.grad or forward-mode differentiation is active: tensors are wrappers or have
    tangents inside, and run other operators."""
    return torch._C._functorch.maybe_current_level() is not None or torch.autograd.forward_ad._current_level >= 0


def in_make_fx():
    """Returns whether make_fx() traces what runs now."""
    module = sys.modules.get("torch.fx.experimental.proxy_tensor")
    return module is not None and module.get_proxy_mode() is not None


def saved_tensor_hooks():
    """Returns the functions that receive what autograd saves now, and give the tensors back; None: autograd keeps the
    tensors itself."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True)


def pack_hook():
    """Returns the first of saved_tensor_hooks(), or None."""
    hooks = saved_tensor_hooks()
    return None if hooks is None else hooks[0]


def is_of_checkpoint(hook):
    """Returns whether a pack_hook() belongs to a checkpoint without reentry, or to the recomputation of such a
    checkpoint."""
    return hook is not None and getattr(hook, "__module__", "") == torch.utils.checkpoint.__name__


def saves_in_checkpoint(hook):
    """Returns whether autograd has saved a tensor inside of a checkpoint without reentry. `hook` is the pack_hook() of
    the checkpoint."""
    frames = [cell.cell_contents for cell in getattr(hook, "__closure__", None) or ()]
    return any(getattr(frame, "weak_holders", None) for frame in frames)


def in_reentrant_checkpoint():
    """Returns whether this thread runs the forward or the recomputation of a checkpoint with reentry."""
    frame, reentrant = sys._getframe(1), _reentrant_code()
    while frame is not None and frame.f_code not in reentrant:
        frame = frame.f_back
    return frame is not None


@functools.cache
def _reentrant_code():
    function = torch.utils.checkpoint.CheckpointFunction
    return frozenset((function.forward.__code__, function.backward.__code__))


def keep_ragged_size(tensor, inner, made):
    """Gives a jagged tensor that is made of the tensors `made` the size of `tensor`, made of `inner`: PyTorch knows a
    ragged size by the object of the offsets, and autograd compares the sizes of gradients."""
    nested = sys.modules.get("torch.nested._internal.nested_tensor")
    if nested is None or not isinstance(tensor, nested.NestedTensor):
        return
    name = "_lengths" if "_lengths" in inner else "_offsets"
    if made[name] is not inner[name]:
        nested._tensor_symint_registry[made[name]] = nested.get_tensor_symint(inner[name])
