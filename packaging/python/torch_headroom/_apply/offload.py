# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Offload: tensors that autograd saves in a module's forward, or that a checkpointed module keeps for its recomputation,
go to pinned host memory, and come back before backward needs the tensors.

The forward runs inside of saved_tensors_hooks(), and nothing else changes. A call is a forward that saves a tensor;
calls are numbered over all modules of a policy, checkpointed ones too. A storage that moves is copied to the host at once, on a
stream beside the compute stream. The storage leaves the device at the end of the forward of the call that is `wait`
calls later. The first unpack of a call brings back the storages of this call, and of each earlier call that is at most
`ahead` calls away the first `prefetch` storages. The storages of the earlier call that is `ahead` calls away wait until
the call has unpacked `after_unpacks` tensors and needs another one. Streams wait for events, the CPU never does.

What a checkpointed module keeps for its recomputation goes the same way (HostedCall): arguments from the begin of the
call on, results of ops from the op on, until the module runs again.

A device block is always freed after the compute streams have waited for the copy from or into the block, so the caching
allocator, which orders a block's uses by the stream of the allocation, needs no record_stream(). Only a program with
several compute streams needs record_stream(), for a block that came back and that another stream uses.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
import weakref

import torch
from torch.utils._pytree import tree_map

from .._modules import tensors_of
from .._torch import in_transform, saved_tensor_hooks, untraced
from . import pinned
from .held import compare_versions, parts_of, version_of
from .policy import ModulePolicy, PolicyError
from .region import OFFLOADED_IN_A_GRAPH, PlannedModule


class OffloadedModule(PlannedModule):
    """A module with saved tensors that go to the host. `offloads` is shared by the modules of a policy."""

    def __init__(self, applied, module, policy: ModulePolicy, offloads: Offloads):
        super().__init__(applied, module, policy)
        self.offloads = offloads
        self.unpacked = False  # a backward has begun
        offloads.expect(applied.document.source, policy.fqn, policy.offload)

    def run(self, module, args, kwargs, replaced):
        forward = self.forward_of(module, replaced)
        if torch.compiler.is_compiling():
            self.difference = OFFLOADED_IN_A_GRAPH
            return forward(*args, **kwargs)
        if not torch.is_grad_enabled() or in_transform():
            return forward(*args, **kwargs)
        if not self.checked:
            self.applied.check_modules()
        if self.is_inside_of_a_checkpoint():
            if not self.settled:
                self.refuse_inside_of_a_checkpoint()
            return forward(*args, **kwargs)
        watch, held = self.applied.watch, self.held_bytes(module)
        watch.at(f"at the begin of module {self.policy.fqn}", held.begin)
        call = _Call(self)
        try:
            with torch.autograd.graph.saved_tensors_hooks(untraced(call.pack), untraced(_unpack)):
                result = forward(*args, **kwargs)
            self._check(call)
        finally:
            self.offloads.forward_ends(call)
        watch.at(f"at the end of module {self.policy.fqn}", held.end)
        return result

    def backward_begins(self):
        self.unpacked = True
        self.applied.watch.at(f"in backward, at the begin of module {self.policy.fqn}", self.policy.held.recompute)

    def _check(self, call):
        """Compares a forward with the recording. A forward that saves nothing does not count."""
        planned = self.policy.offload.saved
        if call.packs not in (0, planned) and call.difference is None:
            call.differs(f"autograd saved {call.packs} tensors in the forward, {planned} in the recorded step")
        if self.checked or not call.packs:
            if call.difference and not self.applied.warned_of_forward:
                self.applied.warned_of_forward = True
                warnings.warn(f"{self.applied.document.source}: module {self.policy.fqn}: {call.difference}; tensors of such "
                              "a forward stay on the device, and take more memory than planned (other modules of the "
                              "policy with such a forward are not named)", stacklevel=2)
            return
        self.difference = call.difference and f"{call.difference}; {self.what_to_do()}"
        self.checked = self.difference is None
        if self.difference and self.unpacked:
            self.refuse(self.difference)


class Offloads:
    """The calls of a policy's offloaded modules, and the storages that are on the device and on the host."""

    def __init__(self):
        self.ahead = 0  # the largest of all modules
        self.after_unpacks = set()  # of all modules, without 0
        self.cards = {}  # device -> pinned.Card
        self.lock = threading.RLock()  # held while storages come back: each device has its own thread in backward
        self.on_device = {}  # storage -> weak reference to its _Storage, until the storage leaves
        self._leaving = []  # (call at the end of which storages leave, weak references to the storages)
        self._calls = {}  # number -> weak reference to a call
        self._count = 0

    def expect(self, source, fqn, offload):
        """Called for each module with tensors that move. Raises PolicyError without CUDA."""
        if not pinned.Cuda.is_available():
            raise PolicyError(f"{source}: module {fqn}: tensors go to pinned host memory, and that needs CUDA: train on a "
                              "GPU, or plan without --offload")
        self.ahead = max(self.ahead, offload.ahead)
        self.after_unpacks |= {offload.after_unpacks} - {0}

    def hosted_by(self, module):
        """Returns the object for what a call of a checkpointed module moves; None: nothing moves."""
        return HostedCall(module, self) if module.policy.hosted else None

    def begin(self, call):
        """Numbers a call that saves tensors. `call` is None if nothing of the call moves. Returns the number."""
        number = self._count
        self._count += 1
        if call is None:
            return number
        call.number = number
        for known in call.storages:
            known().newest, known().last = number, number + call.offload.wait
        self._calls[number] = weakref.ref(call, lambda _: self._calls.pop(number, None))
        return number

    def forward_ends(self, call):
        """Called at the end of a call with tensors that move."""
        if call.number is None:
            return
        if call.difference is None and call.storages:
            self._leaving.append((call.number + call.offload.wait, call.storages))
        self.leave(call.number)

    def leave(self, number):
        """Called at the end of the call `number`. The storages of which the last call is `wait` calls ago leave the
        device."""
        due = [storages for last, storages in self._leaving if last <= number]
        if due:
            self._leaving = [one for one in self._leaving if one[0] > number]
            for storage in (known() for storages in due for known in storages):
                if storage is not None and storage.last <= number:
                    storage.leave()

    def counting_unpacks(self, call):
        """Returns a context for the forward of a checkpointed call, inside of the checkpoint's hooks."""
        hooks = saved_tensor_hooks() if self.after_unpacks else None
        if hooks is None:
            return contextlib.nullcontext()
        pack, unpack = hooks

        def pack_counted(tensor):
            return _Counted(pack(tensor))

        def unpack_counted(handle):
            self.unpacks(call, handle)
            return unpack(handle.packed)

        return torch.autograd.graph.saved_tensors_hooks(untraced(pack_counted), untraced(unpack_counted))

    def unpacks(self, call, handle):
        """Called before the backward of a call unpacks a tensor."""
        if handle.unpacked:
            return
        handle.unpacked = True
        if call.unpacked in self.after_unpacks:
            self.bring_back(call.number, call.unpacked)
        call.unpacked += 1

    def bring_back(self, number, unpacked=0):
        """Called at the first unpack of the call `number`, and when the call has unpacked so many tensors and needs
        another one."""
        with self.lock:
            for earlier in range(number, number - self.ahead - 1, -1):
                known = self._calls.get(earlier)
                call = known and known()
                ahead = -1 if call is None else earlier + call.offload.ahead - number
                if ahead > 0 or (ahead == 0 and (earlier == number or call.offload.after_unpacks == unpacked)):
                    storages = call.storages if call.is_checkpointed else call.storages[::-1]
                    for storage in storages[call.back:None if earlier == number else call.offload.prefetch]:
                        call.back += 1
                        storage = storage()
                        if storage is not None:
                            storage.bring_back()

    def card(self, device):
        card = self.cards.get(device)
        if card is None:
            card = self.cards[device] = pinned.Card(device)
        return card


class _Call:
    """A forward of an offloaded module. The handles that autograd keeps hold the call."""

    is_checkpointed = False
    __slots__ = ("module", "offload", "number", "packs", "moving", "storages", "difference", "begun", "unpacked", "back",
                 "__weakref__")

    def __init__(self, module):
        self.module = module
        self.offload = module.policy.offload
        self.number = None
        self.packs = 0
        self.moving = self.offload.tensors
        self.storages = []  # weak references in the order of the first packs
        self.difference = None  # sentence: how the call differs from the recording
        self.begun = False  # backward has unpacked a tensor
        self.unpacked = 0  # number of tensors
        self.back = 0  # number of storages that were brought back

    def pack(self, tensor):
        """Returns what autograd keeps in place of a saved tensor."""
        place = self.packs
        self.packs = place + 1
        if not place:
            self.module.offloads.begin(self)
        if place in self.moving:
            what = _obstacle(tensor)
            if what is None:
                storage = self._moved(tensor, place)
                if storage is not None:
                    return _Moved(self, storage, tensor)
            else:
                self.differs(f"the saved tensor {place} of the forward is {what} and stays in place")
        return _Kept(self, tensor)

    def _moved(self, tensor, place):
        """Returns the storage of a tensor, which is on its way to the host; None if the call differs."""
        offloads = self.module.offloads
        known = offloads.on_device.get(tensor.untyped_storage()._cdata)
        storage = known and known()
        if storage is None:
            try:
                storage = _Storage(offloads, tensor)
            except pinned.NoPinnedMemory as error:
                self.module.refuse(str(error))
        elif not storage.is_as_saved_for(tensor):
            return self.differs(f"the memory of the saved tensor {place} of the forward is changed in place after "
                                "the first save")
        elif storage.newest == self.number:
            return storage
        storage.newest = self.number
        storage.last = self.number + self.offload.wait
        self.storages.append(weakref.ref(storage))
        return storage

    def differs(self, sentence):
        """From here on, nothing of this call moves: what is on its way to the host stays on the device, too."""
        self.difference = sentence
        self.moving = frozenset()

    def begin_backward(self):
        self.begun = True
        self.module.backward_begins()
        self.module.offloads.bring_back(self.number)


_BLOCK, _LEAST_BYTES, _LEAST_SHARE = 512, 1024, 64  # as in core/predict/regions.cpp (movedOutputsOf)


class HostedCall:
    """The arguments and the results of ops of a checkpointed call that go to the host. The selective contexts of the call
    do not see the ops: this object has the results for the recomputation. Of an op with several results, small ones stay
    on the device."""

    is_checkpointed = True

    def __init__(self, module: PlannedModule, offloads: Offloads):
        self.offload = module.policy.hosted
        self.number = None
        self.storages = []  # weak references: arguments, then results in the order of the ops
        self.difference = None
        self.begun = False  # the recomputation has asked for an argument
        self.back = 0  # as of _Call
        self._module, self._offloads = module, offloads
        self._results = {}  # (name, index) of an op -> results, as handles
        self._arguments = {}  # key of a storage -> _Storage, until checkpoint() holds handles

    def arguments_in(self, args, kwargs):
        """Returns the tensors that move among the arguments of the call. The storages are on the way from here on."""
        found = {}  # key of a storage -> tensors, in the order of a recording
        for tensor in tensors_of((args, kwargs)) if self.offload.arguments else ():
            for part in parts_of(tensor):
                if part.device.type == pinned.Cuda.type and part.layout is torch.strided and part.untyped_storage().nbytes():
                    found.setdefault(part.untyped_storage()._cdata, []).append(tensor)
        keys, moving = list(found), []
        for number in self.offload.arguments:
            if number >= len(keys):
                self.difference = (f"the forward has {len(keys)} argument tensors on the GPU, and number {number} "
                                   "should go to the host")
            elif what := next(filter(None, map(_obstacle, found[keys[number]])), None):
                self.difference = f"the argument tensor {number} of the forward is {what} and stays in place"
            else:
                moving += found[keys[number]]
                self._arguments[keys[number]] = self._moved(moving[-1], is_shared=False)
        return moving

    def _moved(self, tensor, is_shared=True):
        """Begins to move a tensor. Returns the storage."""
        try:
            storage = _Storage(self._offloads, tensor, is_shared)
        except pinned.NoPinnedMemory as error:
            self._module.refuse(str(error))
        self.storages.append(weakref.ref(storage))
        return storage

    @contextlib.contextmanager
    def holding_arguments(self, begin_backward):
        """A context for checkpoint(). In there, checkpoint() holds handles of the arguments that move. `begin_backward` is
        called before the arguments come back."""
        self._begin_backward = weakref.WeakMethod(begin_backward)  # the call holds this object
        with torch.autograd.graph.saved_tensors_hooks(untraced(self._pack_argument), untraced(_unpack)):
            yield
        self._arguments.clear()

    def _pack_argument(self, tensor):
        storage = None if _obstacle(tensor) else self._arguments.get(tensor.untyped_storage()._cdata)
        return _Moved(self, storage, tensor) if storage else tensor

    def begin_backward(self):
        self.begun = True
        self._begin_backward()()

    def run(self, key, op, args, kwargs):
        """Runs the op `key` of the forward, and keeps the result."""
        result = op(*args, **kwargs)
        read = {tensor.untyped_storage()._cdata for tensor in tensors_of((args, kwargs)) if _obstacle(tensor) is None}
        sizes = {}  # storage -> bytes
        for tensor in tensors_of(result):
            if _obstacle(tensor) is None and not tensor.is_inference():
                storage = tensor.untyped_storage()
                if storage._cdata not in read:
                    sizes[storage._cdata] = -(-storage.nbytes() // _BLOCK) * _BLOCK  # as a recording counts
        least = max(_LEAST_BYTES, max(sizes.values(), default=0) // _LEAST_SHARE)
        moving = {storage: None for storage, nbytes in sizes.items() if nbytes >= least}
        self._results[key] = tree_map(lambda value: self._handle(value, moving), result)
        return result

    def take(self, key):
        """Returns the result of the op `key` to the recomputation, which alone holds the result from here on."""
        if key not in self._results:
            raise RuntimeError(f"{key[0]} runs more often in the recomputation of module {self._module.policy.fqn} "
                               "than in the forward: leave the module out of the plan (--pin)")
        return tree_map(lambda value: value.tensor() if isinstance(value, (_Moved, _Kept)) else value,
                        self._results.pop(key))

    def _handle(self, value, moving):
        if not isinstance(value, torch.Tensor):
            return value
        with torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.ADInplaceOrView, False):  # share versions
            value = value.detach()  # the result of the op gets a node, which holds the checkpoint
        key = value.untyped_storage()._cdata if _obstacle(value) is None else None
        if key not in moving:
            return _Kept(None, value)
        if moving[key] is None:
            moving[key] = self._moved(value)
        return _Moved(None, moving[key], value)


_NEVER = float("inf")


def _unpack(handle):
    if isinstance(handle, torch.Tensor):  # an argument that stays
        return handle
    call = handle.call
    if not call.begun:
        call.begin_backward()
    if not call.is_checkpointed and call.module.offloads.after_unpacks:
        call.module.offloads.unpacks(call, handle)
    return handle.tensor()


class _Counted:
    """What a checkpoint keeps for a saved tensor."""

    __slots__ = ("packed", "unpacked")

    def __init__(self, packed):
        self.packed, self.unpacked = packed, False


class _Kept:
    """A handle of a tensor that stays on the device. Autograd compares versions only without hooks."""

    __slots__ = ("call", "unpacked", "_tensor", "_version")

    def __init__(self, call, tensor):
        self.call = call
        self.unpacked = False
        # A result of an op holds the op's node, which holds this handle. Leaves hold nothing.
        self._tensor = tensor if tensor.is_leaf else tensor.detach()
        self._version = version_of(tensor)

    def tensor(self):
        compare_versions(version_of(self._tensor), self._version)
        return self._tensor


class _Moved:
    """A handle of a tensor that moves: a view of the storage."""

    __slots__ = ("call", "unpacked", "_storage", "_dtype", "_place")

    def __init__(self, call, storage, tensor):
        self.call = call
        self.unpacked = False
        self._storage = storage
        self._dtype = tensor.dtype
        self._place = tensor.storage_offset(), tensor.size(), tensor.stride()

    def tensor(self):
        storage = self._storage.on_device()
        return torch.empty(0, dtype=self._dtype, device=storage.device).set_(storage, *self._place)


class _Storage:
    """A storage that moves. The handles hold this object: the device block or host buffer goes with the last handle."""

    __slots__ = ("newest", "last", "_offloads", "_card", "_key", "_tensor", "_version", "_last_version", "_storage",
                 "_buffer", "_stream", "_copied", "_waited", "__weakref__")

    def __init__(self, offloads, tensor, is_shared=True):
        """`is_shared`: other saves of the storage find this object, until the storage leaves the device."""
        self._copied = None
        self.newest = None  # the last call with the storage
        self.last = None  # the storage leaves the device at the end of this call
        self._version = self._last_version = tensor._version  # at the first save, and on leaving the device
        self._offloads = offloads
        self._card = offloads.card(tensor.device)
        self._tensor = tensor if tensor.is_leaf else tensor.detach()  # has the version; None after leave()
        self._storage = tensor.untyped_storage()  # None on the host
        self._key = self._storage._cdata if is_shared else None
        self._buffer = self._card.buffer(self._storage.nbytes())
        self._stream = self._card.compute()
        self._copied = self._card.copy_out(self._storage, self._buffer, self._stream)  # event of the last copy
        self._waited = ()  # streams that have waited for the event
        if is_shared:
            offloads.on_device[self._key] = weakref.ref(self)

    def is_as_saved_for(self, tensor):
        """Returns whether the storage, which is on the device, has not changed in place since the first save. Aliases
        may count changes apart (unsafe_split(), in cells of recurrent nets): then nobody knows."""
        if tensor._version != self._version:
            return False
        if self._version == 0:
            return True
        with torch.autograd._unsafe_preserve_version_counter(self._tensor):
            torch.autograd.graph.increment_version(self._tensor)
            return tensor._version != self._version

    def leave(self):
        """Leaves the device. From here on a change in place does not concern the copy."""
        self._last_version = self._tensor._version
        self._card.compute()  # may be another stream than that of the save
        self._card.wait(self._copied)
        self.last = _NEVER
        self._tensor = self._storage = None
        self._forget()

    def bring_back(self):
        """Begins to come back. A storage that is still on the device stays there."""
        if self._buffer is None:  # is back already
            return
        if self._storage is not None:
            self.last = _NEVER
            self._forget()  # a new call copies the storage again
            self._card.give_back(self._buffer)
        else:
            self._stream = self._card.compute()
            block, self._copied = self._card.copy_in(self._buffer, self._copied, self._stream)
            self._card.give_back(self._buffer, self._copied)
            self._storage = block
        self._buffer = None

    def _forget(self):
        self._offloads.on_device.pop(self._key, None)

    def on_device(self):
        """Returns the storage on the device, for the current stream."""
        if self._buffer is not None:
            with self._offloads.lock:
                self.bring_back()
        if self._tensor is not None:
            compare_versions(self._tensor._version, self._version)
            return self._storage
        compare_versions(self._last_version, self._version)
        stream = self._card.compute()
        if stream not in self._waited:
            stream.wait_event(self._copied)
            self._waited += (stream,)
            if stream is not self._stream:
                pinned.Cuda.used_by(self._storage, stream)
        return self._storage

    def __del__(self):
        if self._copied is None:  # the constructor failed
            return
        if self._storage is not None:
            self._card.wait(self._copied, self._waited)
        if self._buffer is not None:
            self._card.give_back(self._buffer)
            if self._storage is not None:
                self._forget()


def _obstacle(tensor):
    """Returns what a tensor is that cannot move; None: the tensor moves."""
    if type(tensor) is not torch.Tensor:
        return f"a {type(tensor).__name__}"
    if isinstance(tensor._base, torch.nn.Parameter):
        return "a view of a Parameter"
    if tensor.device.type != pinned.Cuda.type:
        return f"on the device {tensor.device}"
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        return "sparse, nested or quantized"
    if tensor.is_conj() or tensor.is_neg():
        return "a conjugated or negated view"
    return None
