# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch.compile on the simulated GPU. Dynamo, AOTAutograd, the partitioner, Inductor and the generated code run
unchanged. Only generated kernels do nothing: each is an op of the step, with its name, tensors and module. Inductor
decides without measurements. Without Triton, programs run eagerly, with a message.

Compiled autograd traces a backward pass into one graph. The recorder must then leave autograd's graph unchanged: two
saves of a tensor are two inputs of the compiled graph, and a hook on a parameter copies the gradient."""

import ast
import collections
import contextlib
import functools
import importlib.util
import pathlib
import re
import sys
import types

import torch

from . import _remarks as remarks
from ._kernels import launches, triton
from ._library import HeadroomError, Instant
from ._torch import change_after_import, compiling, follow_compilations, patch_around, patch_optimizer_steps

# Modules that Dynamo must not compile, though Dynamo compiles the functions that the modules call: the recorder's
# hooks, and the replacement of torch.cuda.
_OURS = ("_apply/copies.py", "_apply/held.py", "_apply/matching.py", "_apply/members.py", "_compile.py",
         "_kernels/launches.py", "_modules.py", "_record/hooks.py", "_record/loop.py", "_record/step.py", "_remarks.py",
         "_simulate/__init__.py", "_simulate/cuda.py", "_simulate/memory.py", "_simulate/placeholders.py",
         "_simulate/refusals.py", "_simulate/simulate.py", "_torch.py", "record.py")


def patch(card):
    """Patches torch.compile. Imports nothing for programs that do not compile."""
    remarks.add_source(remarks.COMPILATION, _sentences)
    _let_higher_order_operators_through()
    if importlib.util.find_spec("triton") is None:
        _run_eagerly()
        return
    change_after_import("torch._dynamo.callback", follow_compilations)
    change_after_import("torch._dynamo.compiled_autograd", _follow_autograd)
    change_after_import("torch._dynamo.trace_rules", _leave_ours_out)
    _patch_kernels()
    _patch_decisions(card)
    patch_optimizer_steps()


def _leave_ours_out(module):
    package = pathlib.Path(__file__).parent
    module.SKIP_DIRS.extend(str(package / name) for name in _OURS)
    module._recompile_re()


def _sentences():
    """Returns remarks on how torch.compile would act differently on a real card."""
    return [*_eager_sentences(), *_decision_sentences()]


def _let_higher_order_operators_through():
    """Lets operators that call functions (flex_attention, checkpoints in graphs) pass the dispatch key that routes ops
    to the simulated GPU. Such operators are implemented in Python, and that key has no kernel for the operators."""
    keys = torch._C.DispatchKeySet
    own = torch._C._dispatch_tls_local_include_set()
    for usual in ("BackendSelect", "ADInplaceOrView"):
        own = own.remove(getattr(torch._C.DispatchKey, usual))

    def let_through(operator, *_, **__):
        operator.non_fallthrough_keys = keys.from_raw_repr(operator.non_fallthrough_keys.raw_repr() & ~own.raw_repr())

    patch_around(torch._ops.HigherOrderOperator, "__init__", after=let_through)
    for operator in torch._ops._higher_order_ops.values():
        let_through(operator)


_told = []
_SENTENCE = ("torch.compile is left out, as Triton is not installed here: the model runs eagerly (pip install triton)")


def _eager_sentences():
    """Returns remarks on a step that ran without compilation."""
    return _told


def _tell_eager():
    if not _told:
        print(f"torch-headroom: {_SENTENCE}", file=sys.stderr)
        _told.append(f"{_SENTENCE}; compiled, the model takes another time and mostly less memory")


def _eager(function):
    # Libraries compile functions that a program may never call.
    @functools.wraps(function)
    def call(*arguments, **named):
        _tell_eager()
        return function(*arguments, **named)

    return call


def _run_eagerly():
    def compile(model=None, **options):
        if model is None:
            return lambda function: compile(function, **options)
        if not isinstance(model, torch.nn.Module):
            return _eager(model)
        _tell_eager()
        return model

    def compile_module(self, *arguments, **options):
        _tell_eager()

    torch.compile = compile
    torch.nn.Module.compile = compile_module


AUTOTUNED, PADDED, FUSED = "autotuned", "padded", "fused"
IN_PYTHON = "cpp_wrapper"

decided = collections.Counter()  # by kind, for the graphs of this process
_pending = collections.Counter()  # by kind, since the last graph was generated


def _decision_sentences():
    """Yields remarks on a step that runs compiled code."""
    if decided[AUTOTUNED]:
        yield (f"torch.compile chose {_times(AUTOTUNED)} between kernels without measuring: PyTorch's own, or the "
               "first template where there is none; on the card another may be faster and need other memory")
    if decided[PADDED]:
        yield (f"torch.compile chose {_times(PADDED)} without measuring whether to pad a matrix multiplication: "
               "torch.compile's model of the card decided; on the card the multiplication may stay unpadded and "
               "need less memory")
    if decided[FUSED]:
        yield (f"torch.compile chose {_times(FUSED)} by default, without measuring, how to fuse or split kernels")
    if decided[IN_PYTHON]:
        yield ("torch.compile wrote wrappers in Python, not in C++ (cpp_wrapper): wrappers in Python allocate the "
               "same buffers and launch each kernel later")


def _times(kind):
    count = decided[kind]
    return "once" if count == 1 else f"{count} times"


def note_decisions(counts):
    """Adds the decisions made for generated code. The generated code calls this function when Python loads the code."""
    decided.update(counts)


def take_pending():
    taken = dict(_pending)
    _pending.clear()
    return taken


def _patch_decisions(card):
    change_after_import("torch._inductor.utils", lambda module: _give_peaks(module, card))
    for user in ("torch._inductor.scheduler", "torch._inductor.fx_passes.pad_mm"):
        change_after_import(user, lambda module: _give_rates(module, card))
    change_after_import("triton.testing", lambda module: _give_clocks(module, card))
    change_after_import("torch._inductor.select_algorithm", _choose_first)
    change_after_import("torch._inductor.fx_passes.pad_mm", _pad_where_bound)
    change_after_import("torch._inductor.codegen.triton", _fuse_as_usual)
    change_after_import("torch._inductor.compile_fx", _write_in_python)


def clock_mhz(card):
    """Returns the highest clock of the card's multiprocessors. Each has 64 lanes for float32, or 128 after 8.0."""
    lanes = 64 if card["compute_capability"] <= 80 else 128
    return round(card["float32_flops"] / (card["multiprocessors"] * lanes * 2) / 1e6)


def _give_peaks(module, card):
    """Gives PyTorch's own results for the card, also without Triton. PyTorch has formulas for a card that is not in
    PyTorch's table. The unit is 1e15 operations a second, as PyTorch's estimators expect."""

    def get_device_tflops(dtype):
        tf32 = torch.backends.cuda.matmul.fp32_precision == "tf32"
        known = module.datasheet_tops(dtype, is_tf32=tf32) if hasattr(module, "datasheet_tops") else None
        if known is not None:
            return known
        assert dtype in (torch.float16, torch.bfloat16, torch.float32)
        tensor_cores = card["compute_capability"] >= 80
        half = dtype != torch.float32
        operations = 512 if tensor_cores and half else 256 if tensor_cores and tf32 else 32
        return card["multiprocessors"] * 4 * clock_mhz(card) * operations * 1e-9

    module.get_device_tflops = get_device_tflops
    module.get_gpu_dram_gbps = lambda: card["gigabytes_per_second"]


def _give_clocks(testing, card):
    def nvsmi(attributes):
        known = {"clocks.max.sm": clock_mhz(card), "clocks.current.sm": clock_mhz(card)}
        if unknown := [name for name in attributes if name not in known]:
            raise HeadroomError(f"nvidia-smi was asked for {', '.join(unknown)}, but Headroom's simulated GPU knows "
                                f"only {', '.join(known)}")
        return [known[name] for name in attributes]

    testing.nvsmi = nvsmi


def _give_rates(module, card):
    """Gives Inductor's own cost models the card's rates in the unit that the models expect: 1e12 operations a
    second."""

    def get_device_tflops(dtype):
        tensor_cores = torch.backends.cuda.matmul.fp32_precision == "tf32"
        wide = card["tensor_float32_flops" if tensor_cores else "float32_flops"]
        return (card["half_flops"] if dtype.itemsize == 2 else wide) / 1e12

    if hasattr(module, "get_device_tflops"):
        module.get_device_tflops = get_device_tflops
    else:
        utils = module.utils
        module.utils = types.SimpleNamespace(**vars(utils) | {"get_device_tflops": get_device_tflops})


def _choose_first(module):
    cache = module.AlgorithmSelectorCache

    def do_autotuning(self, name, input_nodes, layout, input_gen_fns, inputs_key, choices, *more, **named):
        _pending[AUTOTUNED] += 1
        extern = [choice for choice in choices if isinstance(choice, module.ExternKernelCaller)]
        return {(extern or choices)[0]: 1.0}

    cache.do_autotuning = do_autotuning
    cache.make_precompile_fn = lambda self, *arguments, **named: lambda: {}


def _pad_where_bound(module):
    """Pads without measuring. Inductor measures only if is_mm_compute_bound()."""

    def bench(call):
        is_padded = call.__name__ != "orig_bench_fn"
        _pending[PADDED] += is_padded
        return 1.0 if is_padded else 2.0

    module.get_do_bench = lambda: bench
    # Such caches are on disk, where a process would find the results of another process.
    module.get_cached_should_pad = module.get_cached_base_mm_benchmark_time = lambda key: None


def _fuse_as_usual(module):
    def benchmark(self, loaded, *arguments, **named):
        _pending[FUSED] += 1
        return 1.0, loaded.__file__

    module.TritonScheduling.benchmark_codegened_module = benchmark


def _write_in_python(module):
    """Has wrappers written in Python: wrappers in C++ load kernels that are not compiled here."""
    compile_fx = module.compile_fx

    @functools.wraps(compile_fx)
    def compile_in_python(*arguments, **named):
        if not module.config.cpp_wrapper:
            return compile_fx(*arguments, **named)
        decided[IN_PYTHON] += 1
        with module.config.patch(cpp_wrapper=False):
            return compile_fx(*arguments, **named)

    def refuse(*arguments, **named):
        raise HeadroomError("AOTInductor compiles and loads machine code for the card, and Headroom's simulated GPU "
                            "runs no machine code: record the model with torch.compile instead")

    module.compile_fx = compile_in_python
    module.compile_fx_aot = torch._C._aoti.AOTIModelPackageLoader = refuse


_ROOT = re.compile(r"^[LG]\['[^']*'\]")  # how Dynamo names the compiled module, as seen from its frame
_ITEM = re.compile(r"\['?([^]']*)'?\]")  # an item of a module container


def _patch_kernels():
    change_after_import("torch._inductor.async_compile", _load_opaque)
    change_after_import("torch._inductor.codegen.wrapper", _mark_origins)
    change_after_import("torch._inductor.output_code", _end_origins)
    torch._C._dynamo.guards._empty_strided_cuda = _empty_strided


def _empty_strided(size, stride, dtype):
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


class Kernel:
    """Replaces Inductor's CachingAutotuner, which would compile a Triton kernel and measure the configurations."""

    def __init__(self, name, source):
        self.name = name
        self._source = source
        self._names, self._written = _parameters(source)

    def run(self, *arguments, stream=None, **named):
        tensors = {name: value for name, value in (*zip(self._names, arguments), *named.items())
                   if isinstance(value, torch.Tensor)}
        reads, writes = self._of_the_program(tensors) if "user_autotune" in self._source else self._generated(tensors)
        launches.launch(self.name, [tensors[name] for name in reads], [tensors[name] for name in writes])

    def _generated(self, tensors):
        """Returns the tensors that a generated kernel reads and writes. Inductor names pointers by use."""
        written = [name for name in tensors
                   if name in self._written or name.startswith(("out_ptr", "in_out_ptr", "ws_ptr"))]
        return [name for name in tensors if not name.startswith("out_ptr")], written

    def _of_the_program(self, tensors):
        kernel = getattr(torch._inductor.codecache.PyCodeCache.load(self._source), self.name).fn
        accesses = triton.Launches(kernel).accesses(tensors)
        return accesses.reads & tensors.keys(), accesses.writes & tensors.keys()


def _parameters(source):
    """Returns the names of a kernel's arguments in the wrapper's code, and the names of changed arguments, from the
    kernel's source."""
    function = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    names = [argument.arg for argument in function.args.args if argument.annotation is None]
    changed = re.search(r"'mutated_arg_names': (\[[^]]*\])", source)
    return names, set(ast.literal_eval(changed.group(1))) if changed else set()


def _load_opaque(module):
    module.AsyncCompile.triton = (
        lambda self, kernel_name, source_code, device_str="cuda": Kernel(kernel_name, source_code))


def at(path):
    """Attributes the following ops of a compiled graph to the module at `path` inside the compiled region."""
    torch.ops.torch_headroom.origin.default(path)


def _mark_origins(module):
    """Makes generated code call at() before each kernel with the kernel's module."""

    def mark(wrapper, node):
        wrapper.writeline(f"headroom_at({_path_of(node)!r})")

    def add_imports(wrapper):
        wrapper.imports.writeline("from torch_headroom._compile import at as headroom_at")
        if choices := take_pending():
            wrapper.imports.writeline(
                f"from torch_headroom._compile import note_decisions; note_decisions({choices!r})")

    patch_around(module.PythonWrapperCodegen, "enter_context", after=mark)
    patch_around(module.PythonWrapperCodegen, "write_header", after=add_imports)


def _path_of(node):
    """Returns the path of the module in which a graph node was traced, inside the compiled region: ".layers.0"."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return ""
    path, _ = list(stack.values())[-1]
    return _ITEM.sub(r".\1", _ROOT.sub("", path))


def _end_origins(module):
    run = module.CompiledFxGraph.__call__

    def run_and_end(self, inputs):
        compiling.graphs += 1
        try:
            return run(self, inputs)
        finally:
            at(None)

    module.CompiledFxGraph.__call__ = run_and_end


_UNFORESEEN = ("compiled autograd ran a backward pass, unforeseen before the step: the graph has two inputs for a "
               "tensor that two ops saved, and the peak may differ; record a later step (--steps 2)")


def _follow_autograd(module):
    """Reports captures of backward passes as compilations, since the captured code is not the program's. Call once,
    after the import of torch._dynamo.compiled_autograd."""

    def begins(instance, *_):
        compiling.tell(True)
        instance.stack.callback(compiling.tell, False)

    patch_around(module.AutogradCompilerInstance, "begin_capture", before=begins)


def _runs_now():
    module = sys.modules.get("torch._dynamo.compiled_autograd")
    return module is not None and module.compiled_autograd_enabled


def _may_run():
    config = sys.modules.get("torch._dynamo.config")
    return _runs_now() or config is not None and config.compiled_autograd


class CompiledBackward:
    """Counts the backward passes that compiled autograd runs. If compiled autograd ran the last step's backward, the
    tensors that autograd saves in this step are not recorded: recording would change the compiled graph."""

    def __init__(self):
        self._ran = None  # whether compiled autograd ran a backward pass of the last step; None: there was no step
        self._passes = 0  # number of compiled backward passes in this step
        self._leaves_saves = False  # whether the saved tensors of this step are not recorded

    def step_begins(self, library):
        """Called between headroom_recording_new() and headroom_recording_begin()."""
        self._passes = 0
        self._leaves_saves = _may_run() if self._ran is None else self._ran
        if self._leaves_saves:
            library.headroom_recording_at(Instant.SAVES_LEFT)

    def step_ends(self):
        """Returns the settings and the remarks of the step."""
        self._ran = self._passes > 0
        if not self._ran and not self._leaves_saves:
            return [], []
        return [("compiled autograd", str(self._passes))], [] if self._leaves_saves else [_UNFORESEEN]

    @contextlib.contextmanager
    def around(self, recorder):
        """Surrounds a backward pass."""
        if not recorder.recording or not _runs_now():
            yield
            return
        self._passes += 1
        recorder.at(Instant.COMPILED_BACKWARD_BEGIN)
        try:
            yield
        finally:
            recorder.at(Instant.COMPILED_BACKWARD_END)
