# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records steps, one after the other."""

import ctypes
import json
import os
import shlex
import sys
import weakref

import torch

from .. import _remarks as remarks
from .._apply.held import AttributesInCalls, HeldInCalls
from .._compile import CompiledBackward
from .._distributed import sharding
from .._library import OWN_FOLDER, Instant, check, load
from .._modules import (GRADIENT, PARAMETER, Inventory, ModuleNames, implement_parts, implement_retype_parts,
                        is_plain, leaves_of, retype, state_tensors, tensors_of)
from .._simulate import cuda_graphs, simulated_card
from .._simulate.memory import follow_memory_reads, modules_that_read_memory, read, settings_in_use
from .._simulate.placeholders import decisions, timings
from .._torch import compiling, in_backward
from .hooks import say_if_own
from .loop import sizes_of, sizes_with

_REPLAYED = ("the step replays a CUDA graph: the ops come from the capture and belong to no call of a module, so "
             "that no plan recomputes such ops")
_ON_SIDE_STREAM = ("the step ran on a side stream, as in the warm-up before the capture of a CUDA graph: if the "
                   "program replays a graph later, record a replay (a higher number with --steps)")
_TIMED = "elapsed_time() was called {}, and told times of this machine: the card's are in the step"
_ENDED_EARLY = "the step ended early, by {}: the rest is missing, and no plan is possible"


def _declared(library):
    library.headroom_recording_module.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64]
    library.headroom_recording_module.restype = None
    library.headroom_recording_at.argtypes = [ctypes.c_int]
    library.headroom_recording_at.restype = None
    library.headroom_recording_watch.restype = None
    library.headroom_record_source_lines.argtypes = [ctypes.c_char_p]
    library.headroom_record_source_lines.restype = None
    library.headroom_recording_end_tracing.restype = None
    library.headroom_recording_summary.restype = ctypes.c_char_p
    library.headroom_recording_text.argtypes = [ctypes.c_char_p]
    library.headroom_recording_text.restype = ctypes.c_char_p
    return library


def _checked(text):
    if text is None:
        check(1)
    return text


def _readable(word):
    """Returns a word of the command line as text; a path may have bytes that are not text."""
    return os.fsencode(word).decode(errors="replace")


# Environment variables that set the size of cuBLAS's workspaces, and the caching allocator's options.
_WORKSPACE_VARIABLES = ("CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE")
_ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")  # PyTorch reads the first that is set


class StepRecorder:
    """Records the code that runs between begin() and finish() as a step. The caller decides where steps begin and end.

    `model` is the name in the step file, `program` the words of the recorded command line. `command` holds the arguments
    with which `torch-headroom record` would record the same step, if that command recorded the step. `job` is the
    distributed job that this process belongs to (_distributed/job.py). `policy` is the path of the policy that the step
    runs under. `source_lines`: whether the step has the lines of the program that run ops and allocate memory.
    """

    def __init__(self, model, program, command=(), job=None, policy="", source_lines=True):
        self.model = _readable(model)
        self.library = _declared(load())
        self.library.headroom_recording_watch()
        if source_lines:
            self.library.headroom_record_source_lines(os.fsencode(OWN_FOLDER))
        implement_retype_parts()
        implement_parts()
        sharding.follow_deepspeed()
        follow_memory_reads(self._place)
        self.inventory = Inventory()
        self.numbers = {}  # id(module) -> number, in the running step; read by the hook
        self.recording = False
        self.autocast = False
        self.compiled_backward = CompiledBackward()
        self._held = self._attributes = None  # HeldInCalls and AttributesInCalls of the running step
        self._leaves = set()  # ids of the optimizers' tensors that are no parameters of modules, at the step's begin
        self.calls = 0  # number of module calls in this step
        self.replays = 0  # number of replays of CUDA graphs with a backward pass in this step
        self._on_side_stream = False  # whether the step began on another stream than the default one
        self.calls_in_transforms = 0  # number of further calls inside torch.func
        self.depth = 0  # number of nested module calls that run now
        self.running = 0  # number of the innermost running module
        self.compiled = None  # (number of the last called compiled module, depth inside the module)
        self.in_larger_graphs = set()  # numbers of modules that torch.compile compiled as a part of something larger
        self.checkpointing = set()  # numbers of modules with a forward that began a checkpoint of the program
        self.wrapped = set()  # numbers of modules that the program called by torch.compile()'s wrapper
        self.step = 0  # number of the last finished step
        self.notes = []  # notes on that step, sentences
        self._names = None
        self._sizes = 0, 0  # (batch, sequence)
        self._summary = None  # of the last finished step
        self._on_cpu = False  # whether all parameters of the last finished step are on the CPU
        self._process = os.getpid()
        self.job = job  # None: the script runs alone
        self._policy = _readable(policy)
        self._command = [_readable(word) for word in command]
        # Read now, as the program may change the folder.
        origin = [("program", shlex.join(program)), ("interpreter", sys.executable), ("folder", os.getcwd())]
        self._origin = [(key, _readable(value)) for key, value in origin]

    def _place(self):
        if not self.recording:
            return ""
        return self._names.name_of(self.running) if self.depth else "backward" if in_backward() else ""

    def note(self, key, value):
        """Adds or replaces a setting with which the steps are recorded."""
        self._origin = [pair for pair in self._origin if pair[0] != key] + [(key, value)]

    def begin(self, arguments=()):
        """Begins a step. `arguments` are the arguments of the model's call that begins the step, if a call does."""
        ops = torch.ops.torch_headroom
        check(self.library.headroom_recording_new())
        roots = self.inventory.roots()
        self._names = ModuleNames(roots, self.numbers)
        self._names.declare(self.library, ops.registered.default)
        ops.inputs.default(tensors_of(arguments))
        places = {}
        self._held, self._attributes = HeldInCalls(places), AttributesInCalls(places)
        self._sizes = sizes_of(arguments)
        sharding.declare_zero(self._names.living())
        optimizers = self.inventory.optimizers()
        leaves = leaves_of(optimizers, self._parameters())
        self._leaves = {id(tensor) for tensor, _ in leaves}
        for tensor, category in leaves:
            ops.leaf.default(tensor, category)
        ops.optimizer_state.default([t for o in optimizers for t in state_tensors(o)])
        # The library itself finds gradients of plain parameters.
        retype([p.grad for p in self._parameters() if not is_plain(type(p))], GRADIENT)
        remarks.begin()
        compiling.graphs = 0
        self.compiled_backward.step_begins(self.library)
        check(self.library.headroom_recording_begin())
        self.recording = True
        self.autocast = torch.is_autocast_enabled("cuda")
        self.calls = self.calls_in_transforms = self.replays = 0
        self.in_larger_graphs.clear()
        self.wrapped.clear()
        self.checkpointing.clear()
        self._on_side_stream = torch.cuda.current_stream() != torch.cuda.default_stream()

    def add_root_call(self, arguments):
        """Updates the batch sizes for a model's call. If the call's data has other sizes than earlier calls, the step
        has no single size."""
        if torch.is_grad_enabled() and not in_backward():
            self._sizes = sizes_with(self._sizes, arguments)
            around = torch._C._autograd._top_saved_tensors_default_hooks(True)
            if around:
                say_if_own(around[0])

    def models_are_gone(self):
        """Returns whether the running step had models, and the program has dropped all models."""
        return self.recording and self._names.has_modules and next(self._names.living(), None) is None

    def own_update(self, begins):
        """Reports the start or end of the code in which a program without an optimizer may update the parameters."""
        self.at(Instant.OWN_UPDATE_BEGIN if begins else Instant.OWN_UPDATE_END)

    def add_held(self, call, args, kwargs, found):
        """Adds the tensors that a checkpoint would hold of a call that has begun, besides the tensors in `found`."""
        tensors, places = self._held.of(args, kwargs, found)
        if tensors:
            with torch._C.DisableTorchFunctionSubclass():
                torch.ops.torch_headroom.held.default(call, tensors, places)

    def add_attributes(self, call, module):
        """Adds the tensors in the attributes of a module whose call has begun. Returns what drop_attributes() needs."""
        if not torch.is_grad_enabled():
            return []
        tensors, places = self._attributes.begin(module)
        if tensors:
            with torch._C.DisableTorchFunctionSubclass():
                torch.ops.torch_headroom.held.default(call, tensors, places)
        return list(zip(places, map(weakref.ref, tensors)))

    def drop_attributes(self, call, module, begun):
        """Drops the tensors that the module has not replaced until the end of the call."""
        if begun:
            torch.ops.torch_headroom.not_held.default(call, self._attributes.unchanged(module, begun))

    def update_begins(self, optimizer):
        """Gives an optimizer's tensors that the program has made within the step their category, and so the gradients
        that the program has assigned to the tensors, such as master weights."""
        if not self.recording:
            return
        leaves = leaves_of([optimizer], self._parameters())
        torch.ops.torch_headroom.parameters_made.default(
            [leaf for leaf, category in leaves if category == PARAMETER and id(leaf) not in self._leaves])
        retype([leaf.grad for leaf, _ in leaves], GRADIENT)

    def gradients_are_made(self):
        """Gives the gradients that a replay made the category of gradients, as autograd's hooks do otherwise."""
        retype([parameter.grad for parameter in self._parameters()], GRADIENT)

    def at(self, instant):
        if self.recording:
            self.library.headroom_recording_at(instant)

    def finish(self, step, ended_early=""):
        """Ends the step, which write() then writes. `ended_early` says why the step is incomplete; empty: complete."""
        self.step = step
        self._summary = None
        self.notes = []
        if self.calls_in_transforms:
            self.notes.append(f"{self.calls_in_transforms} calls of modules ran inside of torch.func (vmap, grad) or "
                              "torch.autograd.forward_ad, where no checkpoint is possible: memory of such calls "
                              "counts, but no plan recomputes such calls")
        if timings.count:
            self.notes.append(_TIMED.format(timings))
        self.notes += [_REPLAYED] if self.replays else [_ON_SIDE_STREAM] if self._on_side_stream else []
        info = json.dumps(self._info(step, ended_early)).encode()
        self._stop()
        check(self.library.headroom_recording_finish(info))

    def out_of_memory_errors(self):
        """Returns how many OutOfMemoryErrors the simulated card has raised."""
        return read(self.library).out_of_memories

    def discard(self):
        self._stop()
        self.library.headroom_recording_discard()

    def end_tracing(self):
        """Stops tracing, which costs the program time."""
        self.library.headroom_recording_end_tracing()

    def add_setting(self, name, value):
        """Adds a setting to the finished step."""
        check(self.library.headroom_recording_add_setting(name.encode(), _readable(value).encode()))

    def add_evaluation(self):
        """Adds the memory that the program took after the finished step until now."""
        check(self.library.headroom_recording_add_evaluation())

    def write(self, path):
        check(self.library.headroom_recording_write(os.fsencode(path)))

    def summary(self):
        if self._summary is None:
            self._summary = json.loads(_checked(self.library.headroom_recording_summary()))
        return self._summary

    def text(self, summary):
        """Returns the printed report; `summary` may have more keys than summary()."""
        document = json.dumps(summary, ensure_ascii=False).encode(errors="replace")  # for bytes that are not text
        return _checked(self.library.headroom_recording_text(document)).decode()

    def cpu_problem(self):
        """Returns a sentence if the step used no memory of the GPU; empty otherwise."""
        if self.summary()["peak_bytes"]:
            return ""
        reason = ", as the model is on the CPU" if self._on_cpu else ""
        return (f"step {self.step} used no memory of cuda{reason}: move the model and the input there before the "
                'training, by model.cuda() or .to("cuda")')

    def _stop(self):
        self.recording = False
        self.numbers.clear()

    def _in_larger_graphs(self):
        """Returns the names of the outermost modules that no checkpoint can surround, since torch.compile compiled each
        as a part of something larger. A whole model behind a wrapper is such a module, too: the wrapper is not a part
        of the model to which a policy is applied."""
        return self._names.outermost(self.in_larger_graphs | self.wrapped & self._names.models())

    def _parameters(self):
        return [p for _, m in self._names.living() for p in m._parameters.values() if p is not None]

    def _info(self, step, ended_early):
        optimizers = sorted({type(o).__name__.lower() for o in self.inventory.optimizers()})
        parameters = self._parameters()
        in_larger_graphs = self._in_larger_graphs()
        checkpointing = sorted(map(self._names.name_of, self.checkpointing))
        dtype = next((p.dtype for p in parameters), torch.float32)
        self._on_cpu = bool(parameters) and all(p.device.type == "cpu" for p in parameters)
        self._names = None
        batch, sequence = self._sizes
        noted = self._origin + cuda_graphs.settings() + sharding.zero_settings()
        if compiling.graphs:
            noted.append(("compiled graphs", str(compiling.graphs)))
        if in_larger_graphs:
            noted.append(("in larger graphs", ", ".join(in_larger_graphs)))
        if checkpointing:
            noted.append(("checkpoints in", ", ".join(checkpointing)))
        settings, sentences = self.compiled_backward.step_ends()
        noted += settings
        if modules_that_read_memory():
            noted.append(("memory read in", ", ".join(modules_that_read_memory())))
        if ended_early:
            noted.append(("ended early", ended_early))
            sentences = [*sentences, _ENDED_EARLY.format(ended_early)]
        # Read at the end of the step: the program may set the variables itself, before the first matrix product.
        noted += [(key, _readable(os.environ[key])) for key in _WORKSPACE_VARIABLES if key in os.environ]
        noted += self._allocator_settings()
        noted += [("invented decisions", str(decisions))] if decisions.count else []
        return {
            "model": self.model, "device": "sim", "dtype": str(dtype).removeprefix("torch."),
            "optimizer": "+".join(optimizers), "autocast": self.autocast, "lifetimes": "frame", "batch": batch,
            "sequence": sequence, "steps": step, "settings": noted, "arguments": self._command,
            "remarks": remarks.of_step() + sentences, "policy": self._policy,
        } | self._rank()

    def _allocator_settings(self):
        """Returns the caching allocator's options: the options that the simulated card used, or the value of the
        variable."""
        if simulated_card() is None:
            return [(key, _readable(os.environ[key])) for key in _ALLOCATOR_VARIABLES if key in os.environ][:1]
        settings = settings_in_use(self.library)
        return [("PYTORCH_CUDA_ALLOC_CONF", settings)] if settings else []

    def _rank(self):
        """Returns the rank of this process, if the process belongs to a job or the program created a process group
        itself."""
        if self.job:
            return {"distributed": self.job.described()}
        dist = torch.distributed
        if not dist.is_available() or not dist.is_initialized():
            return {}
        per_node = int(os.environ.get("LOCAL_WORLD_SIZE", min(8, dist.get_world_size())))
        job = {"world_size": dist.get_world_size(), "ranks_per_node": per_node, "rank": dist.get_rank()}
        return {"distributed": job}

    def forked(self):
        """Returns whether this is a child process, such as a data loading worker: nothing is recorded there."""
        return os.getpid() != self._process
