# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads policy.json: the modules to checkpoint, the ops of each to save, and the modules with saved tensors that go to
the host. Imports no torch."""

from __future__ import annotations

import itertools
import json
import os
import stat
from collections import Counter
from dataclasses import dataclass

VERSION = 1
_MOST_BYTES = 128 << 20


class PolicyError(ValueError):
    """A policy that cannot be read, or that does not fit the model."""


class Unrepeatable(Exception):
    """Raised if a module cannot run again. `str()` says what is in the way, and why."""


BUFFER = "aten.empty_strided.default"  # how generated code of torch.compile allocates


@dataclass(frozen=True)
class HeldBytes:
    """Bytes that the plan expects on the device at the start and end of a module's forward and before the
    recomputation; an entry for each call in the recorded step."""

    begin: tuple = ()
    end: tuple = ()
    recompute: tuple = ()


@dataclass(frozen=True)
class Offload:
    """Saved tensors of a module that go to pinned host memory (offload.py). A call is a forward that saves tensors, of a
    module of the policy; calls are numbered over all modules of the policy."""

    tensors: frozenset  # the tensors that move, as numbers among the tensors that autograd saves in a forward
    saved: int  # number of tensors that autograd saves in a forward
    wait: int  # number of calls until the end of which a tensor stays on the device
    ahead: int  # number of calls before its own backward at which a tensor comes back
    prefetch: int | None  # number of storages that come back early, the others with its own backward; None: all
    after_unpacks: int = 0  # number of saved tensors that the later call's backward uses before early storages come


@dataclass(frozen=True)
class Hosted:
    """What a checkpointed module keeps for the recomputation and sends to pinned host memory (offload.py). `wait`,
    `ahead`, `prefetch` and `after_unpacks` are as of Offload."""

    ops: frozenset  # a part of ModulePolicy.saved, with outputs that move
    arguments: tuple  # arguments that move, as numbers among the storages on the GPU that are arguments, in order
    wait: int
    ahead: int
    prefetch: int | None
    after_unpacks: int = 0


@dataclass(frozen=True)
class ModulePolicy:
    """The policy for one module. `calls` counts, by name, the ops of a recorded forward of the module. `saved` are the
    ops with saved outputs, as (name, index among the ops of that name). A module with `offload` is not checkpointed."""

    fqn: str
    calls: Counter
    saved: frozenset
    types: tuple = ()  # class names from the model to the module; empty in policies of older versions
    held: HeldBytes = HeldBytes()  # empty in policies of older versions
    offload: Offload | None = None
    hosted: Hosted | None = None

    def is_of_a_graph(self):
        """Returns whether the module was recorded as, or inside of, a graph of torch.compile, whose generated code
        allocates by this op."""
        return BUFFER in self.calls


@dataclass(frozen=True)
class Policy:
    source: str  # path of the file, for messages
    model: str
    modules: tuple
    objects: tuple = ()  # names of the models in the step; empty if there was one model
    budget: int = 0  # bytes; 0: unknown
    peak: int = 0  # predicted bytes
    objects_left: tuple = ()  # names in `objects`: models that save tensors, without checkpoints in the plan
    memory_readers: tuple = ()  # names of modules whose forward reads the card's memory
    allocator_settings: str = ""  # PYTORCH_CUDA_ALLOC_CONF of the plan; empty: the program's


def read_policy(path) -> Policy:
    """Reads a policy from a file. Raises PolicyError with one sentence that names the file, the place in the file, and
    the expected value."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        none = " (the policy of a plan is None if the step fits without a plan)" if path is None else ""
        raise PolicyError(f"policy {path!r}: expected the path of a policy.json{none}")
    source = os.fsdecode(path)
    try:
        document = json.loads(_text_of(source))
    except OSError as error:
        raise PolicyError(f"{source}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise PolicyError(
            f"{source} is not a policy: not JSON ({error}); `torch-headroom plan -o` writes a policy") from None
    return _Reader(source).policy(document)


def _text_of(source):
    """Returns the text of a regular file. A pipe or a device would be waited for or read without an end."""
    kind = os.stat(source).st_mode
    if not stat.S_ISREG(kind):
        names = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        raise PolicyError(f"{source}: cannot be read: expected a regular file, but found "
                          f"{names.get(stat.S_IFMT(kind), 'a device')}")
    with open(source, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise PolicyError(f"{source}: cannot be read: more than {_MOST_BYTES >> 20} MiB is too much for a policy")
    return content.decode()


def _is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class _Reader:
    def __init__(self, source):
        self.source = source

    def policy(self, document):
        if not isinstance(document, dict) or "headroom_policy" not in document:
            self.fail("$", "expected an object with \"headroom_policy\", written by `torch-headroom plan -o`")
        version = self.get(document, "$", "headroom_policy", int, "a whole number")
        if version != VERSION:
            self.fail("headroom_policy", f"version {version}; this package reads version {VERSION}: "
                      + ("install a newer torch-headroom" if version > VERSION else "make the policy anew"))
        model = self.get(document, "$", "model", str, "a string")
        entries = self.get(document, "$", "modules", list, "a list")
        predicted = document.get("predicted")
        predicted = predicted if isinstance(predicted, dict) else {}
        held = predicted.get("held_bytes", {})
        if not isinstance(held, dict):
            self.fail("predicted.held_bytes", "expected an object")
        modules = tuple(self.module(entry, f"modules[{i}]", held) for i, entry in enumerate(entries))
        fqns = sorted(module.fqn for module in modules)
        known = set(fqns)
        for outer, inner in zip(fqns, fqns[1:]):
            if outer == inner:
                self.fail("modules", f"{inner} is named twice")
        for inner in fqns:
            for outer in itertools.accumulate(inner.split(".")[:-1], lambda path, name: f"{path}.{name}"):
                if outer in known:
                    self.fail("modules", f"{inner} is inside of {outer}; a checkpointed module contains no other")
        objects, left, readers = (self.names(document, key) for key in ("objects", "objects_left", "memory_readers"))
        peak = self.bytes(predicted, "predicted.peak_bytes", "peak_bytes")
        budget = self.bytes(document, "budget_bytes", "budget_bytes")
        settings = ""
        if "allocator_settings" in document:
            settings = self.get(document, "$", "allocator_settings", str, "a string")
        return Policy(self.source, model, modules, objects, budget, peak, left, readers, settings)

    def names(self, document, key):
        names = self.get(document, "$", key, list, "a list") if key in document else []
        if not all(isinstance(name, str) for name in names):
            self.fail(key, "expected names of models")
        return tuple(names)

    def bytes(self, entry, where, key):
        value = entry.get(key, 0)
        if not _is_count(value):
            self.fail(where, "expected a number of bytes")
        return value

    def held(self, predicted, fqn):
        if fqn not in predicted:
            return HeldBytes()
        place, columns = f"predicted.held_bytes.{fqn}", predicted[fqn]
        if not isinstance(columns, dict):
            self.fail(place, "expected an object")
        kinds = ("begin", "end", "recompute")
        held = HeldBytes(*(tuple(self.get(columns, place, kind, list, "a list")) for kind in kinds))
        if not all(map(_is_count, held.begin + held.end + held.recompute)):
            self.fail(place, "expected numbers of bytes")
        return held

    def module(self, entry, where, predicted):
        if not isinstance(entry, dict):
            self.fail(where, "expected an object")
        fqn = self.get(entry, where, "fqn", str, "a string")
        types = self.types(entry, where, fqn) if "types" in entry else ()
        held = self.held(predicted, fqn)
        if not types:
            fqn = fqn.removeprefix("models.")  # older versions wrote this prefix if the step had several models
        calls, saved, hosted = Counter(), set(), set()
        for i, op in enumerate(self.get(entry, where, "ops", list, "a list")):
            place = f"{where}.ops[{i}]"
            if not isinstance(op, dict):
                self.fail(place, "expected an object")
            name = self.get(op, place, "op", str, "a string")
            index = self.get(op, place, "index", int, "a whole number")
            if index != calls[name]:
                self.fail(f"{place}.index", f"expected {calls[name]}, since so many {name} come before, not {index}")
            if self.get(op, place, "save", bool, "true or false"):
                saved.add((name, index))
            if "offload" in op and self.get(op, place, "offload", bool, "true or false"):
                if (name, index) not in saved:
                    self.fail(f"{place}.offload", "expected an op with \"save\", since only saved results go to the "
                                                  "host")
                hosted.add((name, index))
            calls[name] += 1
        if hosted and "offload" not in entry:
            self.fail(f"{where}.offload is missing", "expected {\"wait\", \"ahead\"}, since ops go to the host")
        moves = self.get(entry, where, "offload", dict, "an object") if "offload" in entry else {}
        if hosted or "arguments" in moves:
            when = moves, f"{where}.offload"
            arguments = self.numbers(*when, "arguments") if "arguments" in moves else ()
            hosted = Hosted(frozenset(hosted), arguments, *self.times(*when))
            return ModulePolicy(fqn, calls, frozenset(saved), types, held, None, hosted)
        offload = self.offload(entry, where) if "offload" in entry else None
        if offload and saved:
            name, index = min(saved)
            self.fail(f"{where}.offload", f"expected no op to save, not {name} {index}: the module is not checkpointed")
        return ModulePolicy(fqn, calls, frozenset(saved), types, held, offload)

    def offload(self, entry, where):
        found, where = self.get(entry, where, "offload", dict, "an object"), f"{where}.offload"
        saved = self.count(found, where, "saved")
        tensors = self.numbers(found, where, "tensors", saved)
        return Offload(frozenset(tensors), saved, *self.times(found, where))

    def numbers(self, entry, where, key, end=None):
        """Returns ascending numbers from 0 to below `end`; None: without an end."""
        numbers = self.get(entry, where, key, list, "a list")
        if (not all(map(_is_count, numbers)) or any(k >= after for k, after in zip(numbers, numbers[1:]))
                or (end is not None and any(k >= end for k in numbers))):
            self.fail(f"{where}.{key}", "expected ascending whole numbers from 0" + (
                "" if end is None else f" to below {end}"))
        return tuple(numbers)

    def times(self, entry, where):
        """Returns when tensors leave the device and come back: wait, ahead, prefetch, after_unpacks."""
        prefetch = self.count(entry, where, "prefetch") if "prefetch" in entry else None
        after_unpacks = self.count(entry, where, "after_unpacks") if "after_unpacks" in entry else 0
        return self.count(entry, where, "wait"), self.count(entry, where, "ahead"), prefetch, after_unpacks

    def count(self, entry, where, key):
        value = entry.get(key)
        if not _is_count(value):
            self.fail(f"{where}.{key}", "expected a whole number, 0 or more")
        return value

    def types(self, entry, where, fqn):
        types = self.get(entry, where, "types", list, "a list")
        if len(types) != fqn.count(".") + 1 or not all(isinstance(kind, str) for kind in types):
            self.fail(f"{where}.types", f"expected {fqn.count('.') + 1} names of classes, as many as {fqn} has parts")
        return tuple(types)

    def get(self, entry, where, key, kind, expected):
        value = entry.get(key)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.fail(f"{where}.{key}".removeprefix("$."), f"expected {expected}")
        return value

    def fail(self, where, what):
        raise PolicyError(f"{self.source}: {where}: {what}")
