# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that a policy changes, and a checkpointed module: torch.utils.checkpoint (non-reentrant) around the forward,
with selective contexts for the ops that the policy saves."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
import weakref
from collections import Counter

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from .._modules import is_plain, tensors_of
from .._torch import (in_backward, in_reentrant_checkpoint, in_transform, is_of_checkpoint, pack_hook,
                      saves_in_checkpoint)
from .copies import CANNOT_RECOMPUTE
from .held import Arguments, Attributes, version_of
from .members import Parameters, statistics_kept
from .policy import BUFFER, HeldBytes, ModulePolicy, Unrepeatable
from .recompute import Forward, RandomState, Recomputing, beside_cached_casts, uses_of, with_own_ops

_OF_A_GRAPH = ("the module was recorded inside of a graph of torch.compile, where PyTorch's partitioner alone decides what "
               "is recomputed: set torch._functorch.config.activation_memory_budget instead (compare budgets with "
               "`python -m torch_headroom.record --activation-memory-budget 0.25,0.5,0.75`), or plan the step recorded "
               "without torch.compile")
OFFLOADED_IN_A_GRAPH = ("the module runs inside of a graph of torch.compile, where PyTorch's partitioner alone "
                        "decides what is saved: record the step again with torch.compile")
_NESTED = ("unlike in the recorded step: turn that checkpoint off (in transformers and diffusers: "
           "model.gradient_checkpointing_disable()), or record the step again")
_NO_HOOKS = "don't yet support saved tensor hooks"  # in torch's message about torch.func.grad and others


class _Running(threading.local):
    """What a thread runs now."""

    calls = 0  # number of forwards and recomputations of regions


running = _Running()


class PlannedModule:
    """A module that a policy changes. The replaced `forward` is an attribute of the instance, so that hooks (those of
    fully_shard included), names, state_dict and the class do not change."""

    def __init__(self, applied, module: torch.nn.Module, policy: ModulePolicy):
        self.applied = applied
        self.policy = policy
        self.checked = False  # a forward was as recorded
        self.settled = False  # checked, and watched for a whole step
        self.ran = False  # outside of a graph
        self.removed = False
        self.difference = None  # sentence: how the last forward differs from the recording
        self._module = weakref.ref(module)

    def put_on(self, module):
        module.forward = Forward(self, module, module.__dict__.get("forward"))

    def remove_from(self, module):
        """`module` may be a copy."""
        if self._module() is module:
            self.removed = True
            self.applied.offloads.cards.clear()  # host memory; calls on the way to their backward keep the cards
        self.take_off(module)

    def is_removed_from(self, module):
        return self.removed and self._module() is module  # copies keep the policy

    def take_off(self, module):
        replaced = module.forward.replaced
        del module.forward
        if replaced is not None:
            module.forward = replaced

    def forward_of(self, module, replaced):
        """Returns the forward without the policy. `module` may be a copy of the original; `replaced`: Forward.replaced."""
        return functools.partial(type(module).forward, module) if replaced is None else replaced

    def held_bytes(self, module):
        """Returns the plan's bytes at the borders of a call; empty if the module has hooks: hooks ran inside of the
        borders in the recording, but run outside here."""
        return HeldBytes() if module._forward_pre_hooks or module._forward_hooks else self.policy.held

    def is_inside_of_a_checkpoint(self):
        """Returns whether a checkpoint of the program's own surrounds the call that begins."""
        return running.calls == 0 and (is_of_checkpoint(pack_hook()) or (in_backward() and in_reentrant_checkpoint()))

    def refuse_inside_of_a_checkpoint(self):
        self.refuse(f"the module runs inside of a checkpoint of the program, {_NESTED}")

    def refuse(self, sentence):
        self.applied.refuse(f"module {self.policy.fqn}: {sentence}")

    def step_ends(self):
        """Called at the end of the first step with the policy."""
        if self.difference:
            self.refuse(self.difference)
        self.settled = self.checked

    def what_to_do(self):
        """Returns what the user can do about a difference from the recording."""
        readers = self.applied.document.memory_readers
        if any(f"{reader}.".startswith(f"{self.policy.fqn}.") for reader in readers):
            return ("the module reads the card's memory, and free memory depends on the plan, so that a step "
                    "recorded again would differ again: use a fixed number in place of the card's memory (a chunk "
                    f"size) first, or leave the module out of the plan with --pin {self.policy.fqn}=save")
        return ("record the step again with the same batch layout, dtype, autocast and device as now; if only the first "
                "steps differ, as while a cache is empty, apply the policy after these steps")


class Region(PlannedModule):
    """A checkpointed module.

    A dispatch mode watches the module until a forward has run the recorded ops and a recomputation has followed.
    Forwards before the training loop, with another batch, may run other ops.
    """

    def __init__(self, applied, module: torch.nn.Module, policy: ModulePolicy):
        super().__init__(applied, module, policy)
        self.recomputed = False  # a recomputation has run
        self.subclass = None  # class name of wrapper tensors among the arguments of ops
        self.computed_with = set()  # paths of attributes that a watched call computed with, not only changed
        self.changed = set()  # paths of attributes that an op of a watched call changed in place
        self.read = {}  # path of an argument or attribute of a watched call -> whether an op read the tensor
        self.compiled_context_fn = lambda: self.contexts(None)  # must be a function, not a bound method
        if policy.hosted:
            applied.offloads.expect(applied.document.source, policy.fqn, policy.hosted)

    def run(self, module, args, kwargs, replaced):
        forward = self.forward_of(module, replaced)
        if not torch.is_grad_enabled() or (not torch.compiler.is_compiling() and in_transform()):
            return forward(*args, **kwargs)
        if torch.compiler.is_compiling():  # in a graph: without _Call, keyword arguments bound
            if self.policy.hosted:
                self.difference = OFFLOADED_IN_A_GRAPH
                return forward(*args, **kwargs)
            forward = functools.partial(forward, **kwargs) if kwargs else forward
            if self.checked and not self.policy.saved:
                return checkpoint(forward, *args, use_reentrant=False)
            return checkpoint(forward, *args, use_reentrant=False, context_fn=self.compiled_context_fn)
        if not self.checked:
            self.applied.check_modules()
        if not self.settled and self.is_inside_of_a_checkpoint():
            self.refuse_inside_of_a_checkpoint()
        watch, held = self.applied.watch, self.held_bytes(module)
        watch.at(f"at the begin of module {self.policy.fqn}", held.begin)
        try:
            call = _Call(self, module, forward, args, kwargs)
            with call.holding_arguments():
                if not (call.watched or self.policy.saved):
                    result = checkpoint(call, *call.inputs(), use_reentrant=False, context_fn=call.plain_contexts)
                else:
                    result = checkpoint(with_own_ops(call), *call.inputs(), use_reentrant=False,
                                        context_fn=call.contexts)
            call.end_forward()
        except Unrepeatable as error:
            self.refuse(str(error))
        except RuntimeError as error:
            if _NO_HOOKS not in str(error):
                raise
            self.refuse("the module takes gradients with torch.func, where PyTorch has no checkpoint; leave the module "
                        f"out of the plan (--pin {self.policy.fqn}=save)")
        watch.at(f"at the end of module {self.policy.fqn}", held.end)
        if call.hosted is not None:
            if call.hosted.difference and not self.settled:
                self.difference, self.checked = f"{call.hosted.difference}; {self.what_to_do()}", False
            self.applied.offloads.forward_ends(call.hosted)
        elif call.number is not None:
            self.applied.offloads.leave(call.number)
        return result

    def refuse_own_checkpoint(self, hook):
        """Refuses a module that checkpoints a part of itself; `hook` is the pack_hook() of the module's own checkpoint.
        Called at each op of a watched forward."""
        now = pack_hook()
        if (now is not hook and is_of_checkpoint(now)) or (not torch.is_grad_enabled() and in_reentrant_checkpoint()):
            self.refuse(f"the module checkpoints a part of the forward, {_NESTED}")

    def contexts(self, call):
        """Returns the contexts of a call, for the forward and the recomputation; `call` is None in a graph."""
        calls = {False: Counter(), True: Counter()}
        watch = call.watch if call is not None and call.watched else None
        on_gpu = call is not None and _touches_gpu(call.inputs(), {})
        kept = _Kept() if watch is not None and self.policy.saved else None
        hosted = call.hosted if call is not None and self.policy.hosted and self.policy.hosted.ops else None
        hosted_names = {name for name, _ in self.policy.hosted.ops} if hosted else ()
        known = []  # what count() has returned for the op that runs now
        recomputations = 0

        def begins():
            nonlocal recomputations
            recomputations += 1
            calls[True].clear()  # the last recomputation may have ended early
            call.recomputation_begins()

        def count(is_recompute, op, args, kwargs):
            """Counts an op. Returns the op as in the policy; None: an op on the CPU, which the recording does not
            have."""
            if watch is not None:
                watch(op, args, kwargs)
            if on_gpu and not _touches_gpu(args, kwargs):
                return None
            if not self.checked:
                self.subclass = self.subclass or _subclass_in((args, kwargs))
            name = str(op)
            seen = calls[is_recompute]
            index = seen[name]
            seen[name] += 1
            if kept is not None:
                if not is_recompute:
                    kept.runs(op, args, kwargs)
                kept.next = name if (name, index) in self.policy.saved and not is_recompute else None
            return name, index

        def decide(context, op, *args, **kwargs):
            key = known.pop() if known else count(context.is_recompute, op, args, kwargs)
            saves = key in self.policy.saved and recomputations < 2  # a retained graph recomputes all from then on
            return CheckpointPolicy.MUST_SAVE if saves else CheckpointPolicy.MUST_RECOMPUTE

        def host(is_recompute, op, args, kwargs):
            """Returns the function for the result of an op that goes to the host; None: another op."""
            if str(op) not in hosted_names:
                return None
            if is_recompute and recomputations > 1:
                return functools.partial(op, *args, **kwargs)
            key = count(is_recompute, op, args, kwargs)
            if key not in self.policy.hosted.ops:
                known[:] = [key]
                return None
            return functools.partial(hosted.take, key) if is_recompute else functools.partial(
                hosted.run, key, op, args, kwargs)

        forward, recompute = create_selective_checkpoint_contexts(decide)
        if call is None:  # a graph has no autocast; the second pass requires the dispatch modes themselves
            compared = self.checked or self.difference
            return (forward if compared else _Checking(forward, self, calls[False])), recompute
        hosts = [hosted and functools.partial(host, is_recompute) for is_recompute in (False, True)]
        forward = beside_cached_casts(forward, watch, kept and kept.add, hosts[False])
        return (_Checking(forward, self, calls[False], kept),
                Recomputing(beside_cached_casts(recompute, host=hosts[True]), begins))

    def check(self, calls: Counter):
        """Checks that a forward ran the recorded ops; `calls` counts the forward's ops by name. A forward without ops
        does not count: some layers are dropped at random."""
        if self.checked or not calls:
            return
        self.difference = self.difference_of(calls)
        if self.difference and self.subclass and self.policy.saved:
            self.refuse(f"the module's ops run inside of tensors of class {self.subclass}, where single results "
                        f"cannot be kept for backward; plan with --pin {self.policy.fqn}=recompute, or =save")
        if self.difference and (self.difference is _OF_A_GRAPH or not self.subclass):
            if self.recomputed:
                self.refuse(self.difference)
            return
        self.checked = True
        self.difference = None

    def difference_of(self, calls):
        """Returns a sentence about the difference from the recording, or None. Views and in-place ops are never saved
        and may have had other names in the recording, so only other ops are compared."""
        for name, count in self.policy.calls.items():
            kept = any(saved == name for saved, _ in self.policy.saved)
            if not _makes_new_tensors(name) or calls[name] == count or (calls[name] > 0 and not kept):
                continue
            if self.policy.is_of_a_graph() and BUFFER not in calls:
                return _OF_A_GRAPH
            ran = f"ran {calls[name]} times" if calls[name] else "never ran"
            return f"{name} {ran} in the forward, {count} times in the recorded step; {self.what_to_do()}"
        return None

    def refuse_changed(self, name, when):
        self.refuse(f"the policy saves the result of {name}, but {when} changes that result in place, so that "
                    "backward would get another value; plan the step with torch-headroom plan to recompute such an op")

    def recomputes(self):
        where = f"in backward, at the recomputation of module {self.policy.fqn}"
        self.applied.watch.at(where, self.policy.held.recompute)
        self.settled = self.checked
        self.recomputed = True


# In the messages of torch and of offload.py about a kept result that has been changed in place.
_CHANGED = "selective activation checkpoint has been mutated", "has been modified by an inplace operation"


class _Call:
    """A call of a region, which checkpoint() runs: first with the program's arguments, then with copies of the
    arguments as at the call."""

    def __init__(self, region, module, forward, args, kwargs):
        self._region = region
        self._module = module
        self._forward = forward
        self._first = args, kwargs
        self.hosted = region.applied.offloads.hosted_by(region)
        self._announced = False  # the recomputation that has asked for arguments on the host is known
        moving = self.hosted.arguments_in(args, kwargs) if self.hosted else ()
        self._arguments = Arguments(forward, args, kwargs, moving)
        self._random_state = RandomState(module)
        self._variables = contextvars.copy_context()
        self._attributes, self._parameters = Attributes(module), Parameters(module)
        self.watched = not region.settled or any(held.path not in region.read for held in self._attributes.tensors)
        self.number = None  # of the forward, among the calls of the policy's modules that save a tensor
        self.unpacked = 0  # as of offload._Call, inside of counting_unpacks()
        self._unread = {}  # storage -> tensors
        self._hook = self._depth = None  # in the forward: pack_hook() of the checkpoint, running.calls
        if self.watched:
            if not region.policy.is_of_a_graph():  # generated code reads tensors without an op
                self._await(self._arguments.held())
            self._await([held for held in self._attributes.tensors if not region.read.get(held.path)])
        self._states = {}  # storage -> attributes
        self._versions = []  # (attribute, tensor, number of changes when the call began)
        for held in filter(_is_seen, self._attributes.tensors):
            if self.watched:
                self._states.setdefault(_storage(held.tensor), []).append(held)
            if self.watched or held.path in region.computed_with:
                self._versions.append((held, weakref.ref(held.tensor), version_of(held.tensor)))
            if not region.read.get(held.path):
                held.release()

    def _await(self, tensors):
        for held in filter(_is_seen, tensors):
            self._unread.setdefault(_storage(held.tensor), []).append(held)

    def inputs(self):
        return self._arguments.inputs

    def contexts(self):
        return self._region.contexts(self)

    def plain_contexts(self):
        return contextlib.nullcontext(), Recomputing(contextlib.nullcontext(), self.recomputation_begins)

    def holding_arguments(self):
        if self.hosted is None or not self.hosted.offload.arguments:
            return contextlib.nullcontext()
        return self.hosted.holding_arguments(self._arguments_asked)

    def _arguments_asked(self):
        """Called when the first recomputation asks for an argument, before the recomputation begins."""
        self.recomputation_begins()
        self._announced = True

    def recomputation_begins(self):
        """Called outside of the contexts, whose modes see only the module's own ops."""
        if self._announced:
            self._announced = False
            return
        self._region.recomputes()
        if self.number is not None:
            with torch.no_grad():  # copies are no part of the recomputation
                self._region.applied.offloads.bring_back(self.number)

    def __call__(self, *inputs):
        running.calls += 1
        try:
            return self._run(inputs)
        finally:
            running.calls -= 1

    def _run(self, inputs):
        if self._first is not None:
            self._hook, self._depth = pack_hook(), running.calls
            (args, kwargs), self._first = self._first, None
            try:
                with self._attributes.drawn(), self._region.applied.offloads.counting_unpacks(self):
                    result = self._forward(*args, **kwargs)
                if saves_in_checkpoint(self._hook):
                    self.number = self._region.applied.offloads.begin(self.hosted)
                return result
            finally:
                self._hook = None  # the hook holds the checkpoint, which holds this call
        try:
            self._arguments.check("between forward and recomputation")
            self._check_states("between forward and recomputation")
        except Unrepeatable as error:
            self._region.refuse(str(error))
        args, kwargs = self._arguments.for_recompute(inputs)
        try:
            with (self._random_state.restored(), self._attributes.restored(self._module), self._parameters.restored(),
                  statistics_kept(self._module, self._region.policy.fqn)):
                return self._variables.copy().run(self._forward, *args, **kwargs)
        except RuntimeError as error:
            if not any(change in str(error) for change in _CHANGED):
                raise
            self._region.refuse_changed("an op", "the program, after the module's forward,")

    def watch(self, op, args, kwargs):
        """Marks the arguments of a forward op as read, and attributes among the arguments as states that the region
        computes with."""
        if running.calls == self._depth:  # not in an inner region
            self._region.refuse_own_checkpoint(self._hook)
        if self._unread:
            for tensor in tensors_of((args, kwargs)):
                for held in self._unread.pop(_storage(tensor), ()):
                    held.hold(tensor)
        if self._states:
            computed, changed = uses_of(op, args, kwargs)
            for tensors, paths in ((computed, self._region.computed_with), (changed, self._region.changed)):
                paths.update(held.path for tensor in tensors_of(tensors)
                             for held in self._states.get(_storage(tensor), ()))

    def _check_states(self, when):
        """Raises Unrepeatable if a buffer or an attribute was changed in place since the call began and the forward
        computes with the value, or if a parameter was replaced. Ops with several results change arguments without a
        new version."""
        self._parameters.check(when)
        for held, known, version in self._versions:
            tensor = known()
            if held.path not in self._region.computed_with or tensor is None:
                continue
            if version_of(tensor) != version or held.path in self._region.changed:
                raise Unrepeatable(f"the module computes with the buffer or attribute `{held.path[1]}`, and that is "
                                   f"changed in place {when}, {CANNOT_RECOMPUTE}")

    def end_forward(self):
        self._arguments.check("by the forward")
        self._check_states("by the forward")
        read, held = self._region.read, self._arguments.held()
        if self.watched:
            unread = {tensor for tensors in self._unread.values() for tensor in tensors}
            self._unread = {}
            for tensor in (*held, *self._attributes.tensors):
                read[tensor.path] = read.get(tensor.path, False) or tensor not in unread
        else:  # a tensor at a new place counts as read
            unread = {tensor for tensor in held if not read.get(tensor.path, True)}
        self._arguments.end_forward(unread)


def _touches_gpu(args, kwargs):
    """Returns whether an op reads or creates a tensor on the GPU."""
    device = kwargs.get("device")
    return (device is not None and torch.device(device).type == "cuda") or _is_on_gpu((*args, *kwargs.values()))


def _is_on_gpu(value):
    if isinstance(value, torch.Tensor):
        return value.is_cuda
    return isinstance(value, (tuple, list)) and any(map(_is_on_gpu, value))


def _subclass_in(value):
    """Returns the class name of a wrapper tensor among an op's arguments; None: there is none."""
    if isinstance(value, torch.Tensor):
        return None if is_plain(type(value)) else type(value).__name__
    if isinstance(value, (tuple, list, dict)):
        items = value.values() if isinstance(value, dict) else value
        return next(filter(None, map(_subclass_in, items)), None)
    return None


def _is_seen(held):
    """Returns whether tensors_of() finds the tensor among an op's arguments, and a stub can replace the tensor."""
    return is_plain(type(held.tensor)) and held.tensor.layout == torch.strided


def _storage(tensor):
    return tensor.untyped_storage()._cdata


class _Kept:
    """The results of a forward's ops that the policy saves, with versions, while the forward runs. After the forward
    the graph holds the context: a result held here is a part of the graph, and would keep both alive."""

    def __init__(self):
        self.next = None  # name of the running op, if saved
        self._results = []
        self._names = {}  # storage of a result -> name
        self._written = None  # name of an op with a result that was changed through an alias without a new version

    def add(self, result):
        name, self.next = self.next, None
        if name is not None:
            found = [tensor for tensor in tensors_of(result) if not tensor.is_inference()]
            self._results += [(name, tensor, tensor._version) for tensor in found]
            self._names |= {_storage(tensor): name for tensor in found}

    def runs(self, op, args, kwargs):
        """Notes what an op that is about to run changes in place: unsafe_split(), in cells of recurrent nets, and .data
        make aliases with versions of their own."""
        for place, argument in enumerate(op._schema.arguments if self._names else ()):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = args[place] if place < len(args) else kwargs.get(argument.name)
                for tensor in tensors_of(value):
                    self._written = self._written or self._names.get(_storage(tensor))

    def end(self):
        """Ends the forward. Returns the name of an op whose result was changed in place; None: there is none."""
        results, self._results, self._names = self._results, [], {}
        return self._written or next((name for name, tensor, version in results if tensor._version != version), None)


class _Checking:
    """The context of the forward. Checks the forward's ops at the end."""

    def __init__(self, context, region, calls, kept=None):
        self.context, self.region, self.calls, self.kept = context, region, calls, kept

    def __enter__(self):
        return self.context.__enter__()

    def __exit__(self, kind, value, traceback):
        result = self.context.__exit__(kind, value, traceback)
        kept, self.kept = self.kept, None
        changed = kept and kept.end()
        if kind is None:
            self.region.check(self.calls)
            if changed:
                self.region.refuse_changed(changed, "a later op of the module")
        return result


def _makes_new_tensors(name):
    """Returns whether an op, named as in a policy, neither changes an argument nor returns a view of an argument. True
    for ops that torch does not know (yet). Some versions of DTensor wait where no mode sees the wait."""
    if name == "_c10d_functional.wait_tensor.default":  # returns an argument, which the schema does not say
        return False
    try:
        namespace, packet, overload = name.split(".")
        schema = getattr(getattr(getattr(torch.ops, namespace), packet), overload)._schema
    except (ValueError, AttributeError):
        return True
    return not any(value.alias_info is not None for value in (*schema.arguments, *schema.returns))
