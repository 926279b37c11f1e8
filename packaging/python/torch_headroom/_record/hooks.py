# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hooks in torch while the recorder is active: calls of modules, optimizers and backward report to the recorder and to
the training loop's observer."""

import functools
import sys
import weakref

import torch
from torch.utils.checkpoint import _recomputation_hook

from .. import _remarks as remarks
from .._compile import at as at_origin
from .._distributed import sharding
from .._library import Instant
from .._modules import around_forward, has_hooks, in_larger_graph, is_compiled, state_tensors, tensors_of
from .._simulate import cuda_graphs
from .._torch import after_steps, around, before_steps, compiling, in_backward, in_transform, is_of_checkpoint


def say_if_own(pack_hook):
    """Adds a remark that the program saves tensors by hooks of its own, unless `pack_hook` is the hook of a checkpoint
    of torch or of an applied policy."""
    module = getattr(pack_hook, "__module__", None) or ""
    if module != torch.utils.checkpoint.__name__ and module.partition(".")[0] != __package__.partition(".")[0]:
        remarks.add("the program keeps tensors for backward by own hooks (saved_tensors_hooks, save_on_cpu): the "
                    "peak counts such tensors, and no plan recomputes such tensors")


def _note_saved(context, *tensors):
    """Notes the tensors that a torch.autograd.Function saves, and the tensors' attributes, unless the program has
    hooks."""
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        return
    context.headroom_saved = [(weakref.ref(tensor), vars(tensor)) if isinstance(tensor, torch.Tensor) else None
                              for tensor in tensors]


def _saved_tensors(context):
    """Returns the saved tensors as they are without a recording: autograd then keeps the tensors themselves."""
    found = torch._C._FunctionBase.saved_tensors.__get__(context)
    noted = context.__dict__.get("headroom_saved", ())
    if compiling.now or len(noted) != len(found):
        return found
    return tuple(_as_saved(context, tensor, known) for tensor, known in zip(found, noted))


def _as_saved(context, tensor, known):
    if type(tensor) is not torch.Tensor or known is None:
        return tensor
    original, attributes = known[0](), known[1]
    if original is tensor or (original is not None and original.grad_fn is context):  # autograd does not keep results
        return tensor
    if original is not None:
        return original
    vars(tensor).update(attributes)
    return tensor


class _Placed:
    """A function of torch, replaced by a function that calls the last item of a list."""

    def __init__(self, owner, name):
        self.owner, self.name = owner, name
        self.original = getattr(owner, name)
        self.calls = calls = [self.original]

        @functools.wraps(self.original)
        def call(*args, **kwargs):
            return calls[-1](*args, **kwargs)

        self.call = call
        self.put_back()

    def set_aside(self):
        setattr(self.owner, self.name, self.original)

    def put_back(self):
        setattr(self.owner, self.name, self.call)


_placed = {}  # (id of a class or module of torch, name) -> _Placed


def _calls_of(owner, name):
    """Returns the list for a function of torch: a call of the function calls the last item. A class is patched once and
    stays patched: at a patch Python visits all subclasses. For modules the visit takes as long as recording the
    backward of a small step."""
    if not _placed:
        compiling.listeners.append(_stand_aside)
    placed = _placed.get((id(owner), name))
    if placed is None:
        placed = _placed[id(owner), name] = _Placed(owner, name)
    return placed.calls


def _stand_aside(begins):
    """Takes the replacements away while PyTorch compiles, so that PyTorch compiles the program without the recorder."""
    for placed in _placed.values():
        (placed.set_aside if begins else placed.put_back)()


class _Replays:
    """Reports captures and replays of CUDA graphs in which moments of the step were noted."""

    def __init__(self, recorder, loop):
        self._recorder = recorder
        self._loop = loop

    def captured(self):
        """Called at the end of a capture, which runs nothing on the card."""
        self._loop.captured()

    def begins(self):
        """Called before a replay."""
        self._loop.replay_begins()
        self._recorder.replays += 1

    def passes(self, moment):
        """Called when a replay passes a noted moment: an Instant, or the end of an optimizer's step."""
        if isinstance(moment, torch.optim.Optimizer):
            self._loop.optimizer_done(moment)
            return
        if moment == Instant.FORWARD_END:
            self._loop.backward_begins()
        if moment == Instant.BACKWARD_END:
            self._recorder.gradients_are_made()
        self._recorder.at(moment)
        if moment == Instant.BACKWARD_END:
            self._loop.backward_ended()


class Hooks:
    """Hooks in torch while the recorder is active. Calls of modules, optimizers and backward report to `loop` (see
    Loop), which decides where a step begins and ends."""

    installed = 0  # number of objects between install() and remove()

    def __init__(self, recorder, loop):
        self._recorder = recorder
        self._loop = loop
        self._undo = []

    def install(self):
        Hooks.installed += 1
        # Each call of a module takes more frames here, and modules may call themselves.
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(2 * limit)
        self._undo.append(lambda: sys.setrecursionlimit(limit))
        compiling.listeners.append(self._compile)
        self._undo.append(lambda: compiling.listeners.remove(self._compile))
        module, optimizer = torch.nn.Module, torch.optim.Optimizer
        self._replace(module, "__call__", self._module_call)
        self._replace(module, "zero_grad", self._zero_grad)
        self._replace(module, "register_parameter", around(after=self._registers))
        self._replace(optimizer, "zero_grad", self._zero_grad)
        self._replace(torch.autograd, "backward", self._backward)
        self._replace(torch.autograd, "grad", self._backward)
        for name, instant in (("__enter__", Instant.RECOMPUTATION_BEGIN), ("__exit__", Instant.RECOMPUTATION_END)):
            self._replace(_recomputation_hook, name, around(before=lambda *_, at=instant: self._recorder.at(at)))
        self._replace(torch.autograd.graph.saved_tensors_hooks, "__enter__", around(before=self._saves_begin))
        functions = torch.autograd.function
        self._replace(functions.FunctionCtx, "save_for_backward", around(before=_note_saved))
        functions.BackwardCFunction.saved_tensors = property(_saved_tensors)
        self._undo.append(lambda: delattr(functions.BackwardCFunction, "saved_tensors"))
        self._undo.append(before_steps(self._before_step))
        self._undo.append(after_steps(self._after_step))
        sharding.install_fsdp_hooks(self._replace, self._recorder)
        replays = _Replays(self._recorder, self._loop)
        cuda_graphs.listeners.append(replays)
        self._undo.append(lambda: cuda_graphs.listeners.remove(replays))

    def remove(self):
        while self._undo:
            self._undo.pop()()
        self._undo = None
        Hooks.installed -= 1

    def _replace(self, owner, name, make):
        if self._undo is None:  # the program imports a library after the recording
            return
        calls = _calls_of(owner, name)
        calls.append(functools.wraps(calls[-1])(make(calls[-1])))
        self._undo.append(calls.pop)

    def _at(self, instant):
        """Reports an instant, and notes the instant in the CUDA graph that is being captured, if there is such a
        graph."""
        self._recorder.at(instant)
        cuda_graphs.note(instant)

    def _registers(self, module, name, parameter, *_, **__):
        """Gives a parameter that the program makes within the step its category."""
        if self._recorder.recording and not compiling.now:
            torch.ops.torch_headroom.parameters_made.default(tensors_of(parameter))

    def _compile(self, begins):
        self._recorder.at(Instant.COMPILATION_BEGIN if begins else Instant.COMPILATION_END)
        if begins:
            self._loop.compilation_begins()

    def _saves_begin(self, hooks):
        recorder = self._recorder
        if not recorder.recording:
            return
        say_if_own(hooks.pack_hook)
        if recorder.depth and is_of_checkpoint(hooks.pack_hook) and not in_backward():
            recorder.checkpointing.add(recorder.running)

    def _module_call(self, original):
        recorder, loop = self._recorder, self._loop
        numbers = recorder.numbers
        enter, leave = torch.ops.torch_headroom.enter.default, torch.ops.torch_headroom.leave.default

        def call(module, *args, **kwargs):
            if loop.awaits_forward:
                loop.module_called(module, args, kwargs)
            number = numbers.get(id(module))
            if number is None and not numbers and recorder.models_are_gone():
                loop.models_gone(module, args, kwargs)
                number = numbers.get(id(module))
            elif number is not None and recorder.depth == 0:
                loop.root_called(module, args, kwargs)
                number = numbers.get(id(module))
            # A compiled wrapper calls the program's module, which is the same call.
            if number is None or recorder.compiled == (number, recorder.depth):
                return original(module, *args, **kwargs)
            if in_transform():
                recorder.calls_in_transforms += 1
                return original(module, *args, **kwargs)
            if recorder.depth == 0:
                recorder.add_root_call((*args, kwargs))
            if in_larger_graph():
                recorder.in_larger_graphs.add(number)
            if is_compiled(module):
                recorder.compiled = number, recorder.depth + 1
                recorder.wrapped.add(number)
            # A checkpoint does not run the module's hooks (which gather the parameters of a sharded module) again, so
            # the recorded call is only the module's forward.
            if has_hooks(module):
                with around_forward(module, functools.partial(recorded, module, number)):
                    return original(module, *args, **kwargs)
            return recorded(module, number, functools.partial(original, module), *args, **kwargs)

        def recorded(module, number, run, *args, **kwargs):
            tensors = tensors_of((args, kwargs))
            outer, recorder.running = recorder.running, number
            recorder.depth += 1
            begun = enter(number, tensors)
            recorder.add_held(begun, args, kwargs, tensors)
            del tensors  # the module may take tensors out of a list among the arguments, and drop the tensors
            attributes = recorder.add_attributes(begun, module)
            recorder.calls += 1
            if recorder.calls < 5:  # a trainer may enable autocast inside the model, after calls of outer modules
                recorder.autocast |= torch.is_autocast_enabled("cuda")
            in_graph = is_compiled(module) or module._compiled_call_impl is not None
            if in_graph:  # graphs of backends without code of their own ("eager", "aot_eager") do not say so
                at_origin("")
            try:
                result = run(*args, **kwargs)
            except BaseException:
                recorder.depth -= 1
                recorder.running = outer
                leave(begun, [])
                raise
            finally:
                if in_graph:
                    at_origin(None)
            recorder.depth -= 1
            recorder.running = outer
            recorder.drop_attributes(begun, module, attributes)
            leave(begun, tensors_of(result))
            if recorder.depth == 0:
                loop.root_returned()
            return result

        return call

    def _zero_grad(self, original):
        recorder, loop = self._recorder, self._loop

        def zero_grad(owner, *args, **kwargs):
            if not recorder.recording:
                return original(owner, *args, **kwargs)
            loop.zero_grad_begins()
            self._at(Instant.ZERO_GRAD_BEGIN)
            result = original(owner, *args, **kwargs)
            self._at(Instant.ZERO_GRAD_END)
            loop.zero_grad_done(owner)
            return result

        return zero_grad

    def _backward(self, original):
        recorder, loop = self._recorder, self._loop
        of_parameters = original.__name__ == "backward"
        position = 3 if of_parameters else 4  # position of create_graph

        def backward(*args, **kwargs):
            # A backward pass inside another one belongs to a checkpoint's recomputation.
            if in_backward():
                return original(*args, **kwargs)
            builds_graph = bool(kwargs.get("create_graph", len(args) > position and args[position]))
            # A gradient that is part of the loss, such as a gradient penalty or forces, belongs to the forward.
            marks = of_parameters or not (builds_graph or recorder.depth)
            of_step = of_parameters or (marks and loop.has_no_optimizer())
            if not of_parameters:
                loop.gradient_taken()
            if of_step:
                loop.backward_begins()
            at = self._at if of_parameters else recorder.at
            if marks:
                at(Instant.FORWARD_END)
            if builds_graph:
                recorder.at(Instant.BACKWARD_GRAPH_BEGIN)
            try:
                with recorder.compiled_backward.around(recorder):
                    result = original(*args, **kwargs)
            finally:
                if builds_graph:
                    recorder.at(Instant.BACKWARD_GRAPH_END)
            if marks:
                at(Instant.BACKWARD_END)
            if of_step:
                loop.backward_ended()
            return result

        return backward

    def _before_step(self, optimizer, args, kwargs):
        recorder = self._recorder
        recorder.inventory.add_optimizer(optimizer)
        recorder.update_begins(optimizer)
        self._at(Instant.OPTIMIZER_BEGIN)
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if not recorder.recording or not callable(closure):
            return None

        # LBFGS runs forward and backward inside its step.
        @functools.wraps(closure)
        def closure_outside():
            self._end_optimizer(optimizer)
            try:
                return closure()
            finally:
                recorder.at(Instant.OPTIMIZER_BEGIN)

        if "closure" in kwargs:
            return args, {**kwargs, "closure": closure_outside}
        return (args[0], closure_outside, *args[2:]), kwargs

    def _after_step(self, optimizer, args, kwargs):
        if self._recorder.recording:
            self._end_optimizer(optimizer)
        cuda_graphs.note(optimizer)
        self._loop.optimizer_done(optimizer)

    def _end_optimizer(self, optimizer):
        torch.ops.torch_headroom.optimizer_state.default(state_tensors(optimizer))
        self._at(Instant.OPTIMIZER_END)
