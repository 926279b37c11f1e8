# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernels that Inductor generates: ops of the step with their names, their tensors and the module they come from. They
are not compiled."""

import ast
import re

import torch

from . import _compile_choices, _opaque, _triton_accesses
from ._simulate_refusals import change_after_import


_ROOT = re.compile(r"^[LG]\['[^']*'\]")  # how Dynamo names what was compiled, as seen from its frame

_ITEM = re.compile(r"\['?([^]']*)'?\]")  # of a module that holds others


def patch():
    change_after_import("torch._inductor.async_compile", _load_opaque)
    change_after_import("torch._inductor.codegen.wrapper", _mark_origins)
    change_after_import("torch._inductor.output_code", _end_origins)
    torch._C._dynamo.guards._empty_strided_cuda = _empty_strided


def _empty_strided(size, stride, dtype):
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


class Kernel:
    """In the place of Inductor's CachingAutotuner, which would compile a Triton kernel and measure its configurations."""

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
        """Inductor names pointers by what is done with them."""
        written = [name for name in tensors if name in self._written or name.startswith(("out_ptr", "in_out_ptr", "ws_ptr"))]
        return [name for name in tensors if not name.startswith("out_ptr")], written

    def _of_the_program(self, tensors):
        kernel = getattr(torch._inductor.codecache.PyCodeCache.load(self._source), self.name).fn
        accesses = _triton_accesses.of_launch(kernel, tensors)
        return accesses.reads & tensors.keys(), accesses.writes & tensors.keys()


def _parameters(source):
    """Names of what the wrapper's code gives to a kernel, and those of them that it changes, from the kernel's source."""
    function = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    names = [argument.arg for argument in function.args.args if argument.annotation is None]
    changed = re.search(r"'mutated_arg_names': (\[[^]]*\])", source)
    return names, set(ast.literal_eval(changed.group(1))) if changed else set()


def _load_opaque(module):
    module.AsyncCompile.triton = lambda self, kernel_name, source_code, device_str="cuda": Kernel(kernel_name, source_code)


def at(path):
    """What runs next in a compiled graph is of the module at `path` inside of what was compiled."""
    torch.ops.torch_headroom.origin.default(path)


def _mark_origins(module):
    """The generated code says before each kernel which module it comes from."""
    wrapper = module.PythonWrapperCodegen
    enter_context, write_header = wrapper.enter_context, wrapper.write_header

    def enter_context_at(self, node):
        enter_context(self, node)
        self.writeline(f"headroom_at({_path_of(node)!r})")

    def write_header_with_import(self):
        write_header(self)
        self.imports.writeline("from torch_headroom._compile_kernels import at as headroom_at")
        if choices := _compile_choices.take_pending():
            self.imports.writeline(f"from torch_headroom import _compile_choices; _compile_choices.note({choices!r})")

    wrapper.enter_context, wrapper.write_header = enter_context_at, write_header_with_import


def _path_of(node):
    """Of the module that a node of the graph was traced in, inside of what was compiled: ".layers.0"."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return ""
    path, _ = list(stack.values())[-1]
    return _ITEM.sub(r".\1", _ROOT.sub("", path))


def _end_origins(module):
    run = module.CompiledFxGraph.__call__

    def run_and_end(self, inputs):
        try:
            return run(self, inputs)
        finally:
            at(None)

    module.CompiledFxGraph.__call__ = run_and_end
