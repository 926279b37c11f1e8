# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels that Inductor generates: each is an op of the step, with its name, its tensors and its module. They are not
compiled."""

import ast
import re

import torch

from . import _compile_choices, _opaque, _triton_accesses
from ._around import patch_around
from ._compiling import compiling
from ._simulate_refusals import change_after_import

_ROOT = re.compile(r"^[LG]\['[^']*'\]")  # how Dynamo names the compiled module, as seen from its frame
_ITEM = re.compile(r"\['?([^]']*)'?\]")  # an item of a module container


def patch():
    change_after_import("torch._inductor.async_compile", _load_opaque)
    change_after_import("torch._inductor.codegen.wrapper", _mark_origins)
    change_after_import("torch._inductor.output_code", _end_origins)
    torch._C._dynamo.guards._empty_strided_cuda = _empty_strided


def _empty_strided(size, stride, dtype):
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


class Kernel:
    """Replaces Inductor's CachingAutotuner, which would compile a Triton kernel and measure its configurations."""

    def __init__(self, name, source):
        self.name = name
        self._source = source
        self._names, self._written = _parameters(source)

    def run(self, *arguments, stream=None, **named):
        tensors = {name: value for name, value in (*zip(self._names, arguments), *named.items())
                   if isinstance(value, torch.Tensor)}
        reads, writes = self._of_the_program(tensors) if "user_autotune" in self._source else self._generated(tensors)
        _opaque.launch(self.name, [tensors[name] for name in reads], [tensors[name] for name in writes])

    def _generated(self, tensors):
        """Returns the tensors that a generated kernel reads and writes: Inductor names pointers by their use."""
        written = [name for name in tensors
                   if name in self._written or name.startswith(("out_ptr", "in_out_ptr", "ws_ptr"))]
        return [name for name in tensors if not name.startswith("out_ptr")], written

    def _of_the_program(self, tensors):
        kernel = getattr(torch._inductor.codecache.PyCodeCache.load(self._source), self.name).fn
        accesses = _triton_accesses.Launches(kernel).accesses(tensors)
        return accesses.reads & tensors.keys(), accesses.writes & tensors.keys()


def _parameters(source):
    """Returns the names of a kernel's arguments in the wrapper's code, and of those that it changes, from the kernel's
    source."""
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
        wrapper.imports.writeline("from torch_headroom._compile_kernels import at as headroom_at")
        if choices := _compile_choices.take_pending():
            wrapper.imports.writeline(
                f"from torch_headroom import _compile_choices; _compile_choices.note({choices!r})")

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
