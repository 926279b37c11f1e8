# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds where a step of a training loop begins and ends, without the script's help, and the sizes of a batch."""

import signal
import threading
import weakref
from collections import Counter

import torch

from .. import _remarks as remarks
from .._modules import is_a, parameters_of, tensors_of, values_in
from .._torch import in_backward, in_transform


def _parameters_of(optimizer):
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


class Finished(BaseException):
    """Ends a script once the requested step is recorded. Not an Exception, since scripts catch every Exception."""


class Loop:
    """The object that hooks report to. This class ignores the reports: the program marks the steps itself."""

    awaits_forward = False  # whether the next call of a module is reported

    def _ignore(self, *_):
        pass

    def has_no_optimizer(self):
        """Returns whether a call of torch.autograd.grad() is the backward pass of a step, as the program changes the
        parameters itself."""
        return False

    module_called = models_gone = root_called = root_returned = compilation_begins = gradient_taken = _ignore
    backward_begins = backward_ended = optimizer_done = zero_grad_begins = zero_grad_done = _ignore
    captured = replay_begins = _ignore


class ScriptLoop(Loop):
    """Finds the steps of an unchanged script.

    A step begins with the first call of a model under gradients and lasts until every optimizer has made a step, so
    that gradient accumulation and adversarial training count as one step. Clearing the gradients afterwards belongs to
    the step. The step ends when all gradients are cleared, or with the next call of a module: a loop that clears
    gradients before backward is then at the start again. Every step is recorded and only the last step kept, since the
    script may fail in any step.

    A call before any optimizer exists may only inspect the model's output. Such a call begins no step if another call
    follows once an optimizer exists, before backward. If the script has no optimizer and changes the parameters itself,
    a step ends with the first call after backward. If modules run only inside torch.func, or there are none, a step
    lasts from one step of the optimizers to the next.

    A step that ran out of memory begins again with the next call of a model. Where the program tries batches until a
    batch fits, the steps of a failed try do not count: the model is gone then, or the next batch is smaller.

    The replay of a CUDA graph with a backward pass counts as the call of a model. The capture is no step: the card runs
    nothing then.
    """

    # An optimizer is considered unused after another optimizer has made many steps: a critic makes five or ten for one
    # of the generator, a policy 80 before the value function. The fewest steps count once modules were called this
    # often, since a step of a large model takes long.
    _STEPS_OF_ANOTHER = 8, 128
    _CALLS_OF_MODULES = 4096

    of_process = None  # the ScriptLoop of this process, if the process records a script

    def __init__(self, recorder, requested, progress, fit_call=None):
        """`fit_call`: the number of a call of torch_headroom.fit() to record, from 1, and the sizes."""
        self._recorder = recorder
        self.requested = requested
        self.fit_call = fit_call
        self._progress = progress
        self.steps = 0  # number of completed steps
        self.has_finished = False  # the requested step is recorded, and the script was told to end
        self.before_end = None  # a function to call after the requested step, before the program is ended
        self.evaluation = None  # loaders.Evaluation, if an evaluation after the step is recorded
        self._done = 0  # finished share of the running step
        self.awaits_forward = True
        self._complete = False  # the optimizers have made a step, but the end is missing
        self._functional = False  # no module was called, so no forward begins a step
        self._early = False  # the step began before an optimizer existed, and has not reached backward
        self.by_hand = False  # no optimizer exists: the script changes the parameters itself
        self._updates = False  # by_hand only: from backward on
        self._has_gradients = False  # torch.autograd.grad() was called
        # The program may drop optimizers, for example after running out of memory.
        self._stepped = weakref.WeakKeyDictionary()  # optimizer -> number of steps in this step
        self._cleared = weakref.WeakSet()
        self._unused = weakref.WeakKeyDictionary()  # optimizer -> steps that another optimizer had made
        remarks.add_source(remarks.OPTIMIZERS, self._left_out)
        self._out_of_memory = 0  # number of OutOfMemoryErrors so far, without those since the step began
        self._batch = 0  # samples of the running step
        self._model = lambda: None  # weak reference to the module whose call began the running step
        self._names = {True: [], False: []}  # classes of the optimizers, which may die before the script ends, by
        # whether the optimizer made a step

    def module_called(self, module, args, kwargs):
        if self._recorder.forked():
            self.awaits_forward = False
            return
        if in_backward():  # a recomputation
            return
        if in_transform():  # torch.func replaces the parameters
            self._functional |= not self._recorder.recording
            return
        if (self._early or self.by_hand) and self._recorder.depth:  # a part of a model
            return
        if self._early and not self._recorder.inventory.optimizers():
            return
        if self._complete:
            self._end()
        if self.evaluation and not torch.is_grad_enabled():
            self.evaluation.called()
        if torch.is_grad_enabled() and any(p.requires_grad for p in parameters_of(module)):
            if self.evaluation:
                self.evaluation.step_begins()
            if self._early:
                self._recorder.discard()
            self._recorder.inventory.add_root(module)
            self._functional = False
            self._forget_failed_try(module, (*args, kwargs))
            self._begin((*args, kwargs))

    def _forget_failed_try(self, module, arguments):
        batch, _ = sizes_of(arguments)
        if self._ran_out_of_memory() and (self._model() is None or 0 < batch < self._batch):
            self.steps = 0
        self._out_of_memory = self._recorder.out_of_memory_errors()
        self._batch, self._model = batch, weakref.ref(module)

    def models_gone(self, module, args, kwargs):
        """Called instead of module_called() after the program has dropped all models of the running step, for example
        to try a smaller batch with a new model after running out of memory. The step begins again."""
        self._begin_again(module, args, kwargs)

    def root_called(self, module, args, kwargs):
        """Called in a step before a module that no other module calls."""
        if not (self._complete or in_backward()) and self._ran_out_of_memory():
            self._begin_again(module, args, kwargs)

    def root_returned(self):
        """Called after root_called(), unless the module raised: the program did without the memory that was missing."""
        self._out_of_memory = self._recorder.out_of_memory_errors()

    def _ran_out_of_memory(self):
        return self._recorder.out_of_memory_errors() > self._out_of_memory

    def _begin_again(self, module, args, kwargs):
        self._recorder.discard()
        self._complete = False
        self.awaits_forward = True
        self.module_called(module, args, kwargs)

    def captured(self):
        if self._recorder.recording:
            self._recorder.discard()
        self._complete = False
        self.awaits_forward = True

    def replay_begins(self):
        if self._complete:
            self._end()
        if not self._recorder.recording:
            self._begin()

    def compilation_begins(self):
        self._report("compile", self._done)

    def backward_begins(self):
        self._report("backward", 0.3)
        if not self._recorder.recording:
            self._functional = True
        elif self._early:
            self.by_hand = not self._recorder.inventory.optimizers()
            self._early = False
            self._complete = self.awaits_forward = self.by_hand

    def gradient_taken(self):
        self._has_gradients = True

    def has_no_optimizer(self):
        return self.by_hand or (self._early and not self._recorder.inventory.optimizers())

    def backward_ended(self):
        if self.by_hand and not self._updates:
            self._updates = True
            self._recorder.own_update(begins=True)
        self._keep_names(self._recorder.inventory.optimizers())

    def _keep_names(self, optimizers):
        self._names = {True: [], False: []}
        for optimizer in optimizers:
            self._names[optimizer in self._stepped].append(type(optimizer).__name__)

    def _end_update(self):
        if self._updates:
            self._updates = False
            self._recorder.own_update(begins=False)

    def optimizer_done(self, optimizer):
        self._end_update()  # the program has an optimizer
        if not self._recorder.recording:
            if self._functional:
                self._begin()
            return
        self.by_hand = False
        self._stepped[optimizer] = self._stepped.get(optimizer, 0) + 1
        self._report("optimizer", 0.8)
        self._keep_names(self._recorder.inventory.optimizers())
        self._unused.pop(optimizer, None)
        missing = self._missing()
        if missing and not self._waits_in_vain(self._stepped[optimizer]):
            return
        self._unused.update(dict.fromkeys(missing, self._stepped[optimizer]))
        self._complete = True
        self.awaits_forward = True
        if self._functional:
            self._end()
            self._begin()

    def _missing(self):
        """Returns the optimizers whose step the running step waits for."""
        # An optimizer that wraps another (SAM, Lookahead) has the same parameters.
        updated = {id(parameter) for other in self._stepped for parameter in _parameters_of(other)}
        return [other for other in self._recorder.inventory.optimizers()
                if other not in self._unused and other not in self._stepped
                and any(id(parameter) not in updated for parameter in _parameters_of(other))]

    def _waits_in_vain(self, steps):
        """Returns whether an optimizer is unused that has made no step, while another optimizer made `steps` steps."""
        fewest, most = self._STEPS_OF_ANOTHER
        return steps >= most or (steps >= fewest and self._recorder.calls >= self._CALLS_OF_MODULES)

    def _left_out(self):
        """Returns remarks on optimizers without a part in the step."""
        unused = [optimizer for optimizer in self._unused if optimizer not in self._stepped]
        if not unused:
            return []
        names = ", ".join(sorted(type(optimizer).__name__ for optimizer in unused))
        steps = min(self._unused[optimizer] for optimizer in unused)
        return [f"{names} made no step in the recorded step, while another optimizer made {steps} steps "
                f"or more: gradients and state of {names} may be missing; record a later step with --steps N"]

    def most_steps(self):
        """Returns how many steps of a training loop end the recording at most."""
        return self.requested + self._STEPS_OF_ANOTHER[1] + 1

    def optimizers(self):
        """Returns the living optimizers."""
        return self._recorder.inventory.optimizers()

    def zero_grad_begins(self):
        self._end_update()

    def zero_grad_done(self, owner):
        if not self._complete or self.by_hand:
            return
        if isinstance(owner, torch.optim.Optimizer):
            self._cleared.add(owner)
        else:
            self._cleared.update(self._stepped)
        if self._cleared >= set(self._stepped):
            self._end()

    def script_ended(self):
        """Called at the end of the script. Returns whether a whole step can be written."""
        steps = max(self._stepped.values(), default=0)
        if self._recorder.recording and not self._complete and steps >= self._STEPS_OF_ANOTHER[0]:
            self._unused.update(dict.fromkeys(self._missing(), steps))
            self._complete = True
        if self._recorder.recording and self._complete:
            self._end_update()
            self.steps += 1
            self._recorder.finish(self.steps)
        return self.steps > 0

    def why_unfinished(self):
        """Returns why the script ended without a step, as a sentence that follows the script's name."""
        if not self._recorder.recording:
            if not self._functional:
                return "trained nothing: no module was called with gradients on"
            return ("has no torch.optim optimizer and calls no module outside of torch.func: put the loop into "
                    "`with torch_headroom.record(\"step.hrs\") as rec:` and call rec.step() after each step")
        stepped, missing = (" and ".join(self._names[made_step]) for made_step in (True, False))
        if not stepped and not missing and self._has_gradients:
            return ("took gradients only as a part of the forward (torch.autograd.grad() with create_graph or inside "
                    "of a module) and made no backward pass after that")
        if not stepped and not missing:
            return "made no backward pass"
        if not stepped:
            return f"never called step() of {missing}"
        return f"called step() of {stepped}, but never of {missing}"

    def keep_interrupted(self, reason=""):
        """Keeps the unfinished step for writing. `reason` says what the script raised. Returns whether there is an
        unfinished step."""
        recorder = self._recorder
        if not recorder.recording:
            return False
        is_whole = self._complete and (self._updates or not self.by_hand)  # by hand, complete from backward on
        recorder.finish(self.steps + 1, "" if is_whole else reason)
        return True

    def _begin(self, arguments=()):
        if self.has_finished:  # the script has caught the exception
            self._finish()
        self._early = not self._recorder.inventory.optimizers()
        self.awaits_forward = self._early
        self._stepped.clear()
        self._cleared.clear()
        self._names = {True: [], False: []}
        self._complete = False
        self._report("forward", 0)
        self._recorder.begin(arguments)

    def _end(self):
        self._end_update()
        self.steps += 1
        self._complete = False
        self._recorder.finish(self.steps)
        self.awaits_forward = True
        if self.steps >= self.requested:
            if self.before_end:
                self.before_end()
                self.before_end = None
            if not (self.evaluation and self.evaluation.step_ended()):
                self._finish()

    def _finish(self):
        """Ends the script. If another thread trains, that thread ends, and the main thread gets a KeyboardInterrupt, also
        while the main thread waits for the other."""
        trains = threading.current_thread() is threading.main_thread()
        if not trains and not self.has_finished:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        self.has_finished = True
        raise Finished if trains else SystemExit

    def _report(self, stage, done):
        self._done = done
        share = 0.85 / self.requested
        self._progress(stage, min(0.05 + share * (self.steps + done), 0.9))


def sizes_of(arguments):
    """Returns (batch, sequence) of a call's `arguments`, in samples and tokens. A size is 0 if the arguments give no
    single result."""
    tensors = [tensor for tensor in _direct(arguments) if tensor.dim() > 0]
    if tensors:
        sizes = [tensor.shape[0] for tensor in tensors]
        batch = _commonest(sizes)
        # A size of 1 is a batch, or is broadcast over one.
        if 1 in sizes and batch != _commonest(size for size in sizes if size != 1) and set(sizes) != {1}:
            batch = 0
    else:  # lists: of views or sentences with a batch in each, or of images without one
        batch = _all_same([tensor for tensor in tensors_of(arguments) if tensor.dim() > 0])
    return batch, _sequence(tensors, batch) if batch else 0


def sizes_with(sizes, arguments):
    """Returns the sizes of a step after another call with data: the batch, or 0 if two calls have different batches. An
    argument that another call computed may be any part of the batch, and is not counted."""
    if sizes == (0, 0) or any(tensor.grad_fn is not None for tensor in tensors_of(arguments)):
        return sizes
    batch, sequence = sizes_of(arguments)
    if not batch or (batch, sequence) == sizes:
        return sizes
    return (sizes[0], 0) if batch == sizes[0] else (0, 0)


def _direct(arguments):
    """Returns the tensors that are arguments themselves or values of dicts; items of lists may be parts of a batch."""
    found, waiting = [], list(arguments)
    for value in waiting:
        if is_a(value, dict):
            waiting.extend(values_in(value))
        elif is_a(value, torch.Tensor):
            found.extend(tensors_of(value))
    return found


def _commonest(sizes):
    """Returns the most frequent size; 0 if there is none or a tie."""
    counted = Counter(sizes).most_common(2)
    if not counted or (len(counted) == 2 and counted[0][1] == counted[1][1]):
        return 0
    return counted[0][0]


def _all_same(tensors):
    sizes = {tensor.shape[0] for tensor in tensors}
    return sizes.pop() if len(sizes) == 1 else 0


def _sequence(tensors, batch):
    """Returns the length of texts, from integer tensors [batch, sequence]; other tensors may only be masks."""
    wide = [tensor for tensor in tensors if tensor.dim() > 1 and tensor.shape[0] == batch]
    length = _commonest(t.shape[1] for t in wide if t.dim() == 2 and t.dtype in (torch.int64, torch.int32))
    return length if all(t.shape[1] == length for t in wide if t.is_floating_point()) else 0
