# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Triton on the simulated GPU: kernels are neither compiled nor run. A launch is an op of the step that reads and
writes the tensors found in the kernel's source: the parameters in the pointers of loads and stores. Branches that the
launch's constants exclude do not count. Arguments with unclear use count as read and written. Autotuners take the first
configuration."""

import ast
import re
import types

import torch

from .._library import HeadroomError
from . import launches


def patch_triton(triton):
    """Installs the replacements. Call once, after `import triton`."""
    runtime = triton.runtime
    active = make_driver(triton)
    runtime.driver._default = runtime.driver._active = active
    runtime.jit.JITFunction.run = _run
    runtime.autotuner.Autotuner._bench = _bench
    runtime.autotuner.Autotuner.check_disk_cache = lambda self, key, configs, benchmark: benchmark() or False
    triton.testing.do_bench = triton.testing.do_bench_cudagraph = benchmark


def make_driver(triton):
    """Returns a CUDA driver for Triton, with the card's properties. The driver loads no kernels."""
    from triton.backends.driver import GPUDriver
    from triton.backends.nvidia.driver import CudaDriver

    class Driver(CudaDriver):
        def __init__(self):
            GPUDriver.__init__(self)
            self.utils = types.SimpleNamespace(get_device_properties=_properties, load_binary=_refuse_binary,
                                               set_printf_fifo_size=lambda size: None)
            self.launcher_cls = _refuse_binary

        def get_benchmarker(self):
            return benchmark

    return Driver()


def _properties(device):
    card = torch.cuda.get_device_properties(device)
    return {"max_shared_mem": card.shared_memory_per_block_optin, "max_num_regs": card.regs_per_multiprocessor,
            "multiprocessor_count": card.multi_processor_count, "warpSize": card.warp_size,
            "sm_clock_rate": getattr(card, "clock_rate", 0), "mem_clock_rate": getattr(card, "memory_clock_rate", 0),
            "mem_bus_width": getattr(card, "memory_bus_width", 0)}


def _refuse_binary(*arguments):
    raise HeadroomError("machine code cannot be loaded on Headroom's simulated GPU: launch the kernel by "
                        "kernel[grid](…); Headroom then knows the bytes")


def benchmark(call, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean"):
    """Replaces triton.testing.do_bench: kernel times are not known. Runs the call once, for the call's memory."""
    call()
    launches.choices.add(getattr(call, "__qualname__", "do_bench"))
    return [1.0] * len(quantiles) if quantiles else [1.0] if return_mode == "all" else 1.0


def _bench(self, *arguments, config, **meta):
    launches.choices.add(self.base_fn.__name__)
    return [1.0, 1.0, 1.0]


class _Kernel:
    """The compiled kernel that a launch and warmup() return, without a compiler's facts."""

    n_regs, n_spills, n_max_threads, function, module = 32, 0, 1024, None, None

    def __init__(self, kernel, options):
        self._kernel = kernel
        self.name = kernel.__name__
        self.asm = {}
        self.metadata = types.SimpleNamespace(name=self.name, shared=0, num_warps=4, num_ctas=1, num_stages=3)
        vars(self.metadata).update(options)

    def _init_handles(self):
        pass

    def result(self):
        return self

    def __getitem__(self, grid):
        # All arguments are positional, constants included.
        return lambda *arguments, stream=None: _launch(self._kernel, dict(zip(self._kernel.arg_names, arguments)))


def _run(self, *arguments, grid, warmup, **named):
    """Replaces JITFunction.run."""
    for hook in self.pre_run_hooks:
        hook(*arguments, **named)
    options = {name: named.pop(name) for name in list(named) if name not in self.signature.parameters}
    bound = self.signature.bind(*arguments, **named)
    bound.apply_defaults()
    kernel = _Kernel(self, options)
    if warmup:
        return kernel
    grid = grid(bound.arguments) if callable(grid) else grid
    if all(grid):  # an empty grid launches nothing
        _launch(self, bound.arguments)
    return kernel


def _launch(kernel, arguments):
    if not hasattr(kernel, "headroom_launches"):
        kernel.headroom_launches = Launches(kernel)
    for position, value in enumerate(arguments.values()):
        if any(map(launches.is_out_of_reach, tensors_in(value))):
            raise ValueError(f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?)")
    accesses = kernel.headroom_launches.accesses(arguments)
    reads, writes = ([tensor for name, value in arguments.items() if name in names
                      for tensor in tensors_in(value)] for names in (accesses.reads, accesses.writes))
    launches.launch(kernel.__name__, reads, writes, how=launches.PRODUCTS if accesses.dots else None)


_STORES = re.compile(r"store|scatter")
_LOADS = re.compile(r"load|gather")
_ATOMICS = re.compile(r"atomic|asm")


class Accesses:
    """The names of the parameters that a kernel reads and writes; `dots`: the kernel multiplies matrices. `deciding`
    are the parameters with constants that decided a branch."""

    def __init__(self):
        self.reads, self.writes, self.dots, self.deciding = set(), set(), False, set()

    def add(self, other, of_caller):
        """Adds the accesses of a called function. `of_caller` maps the function's parameters to the caller's parameters
        behind the values."""
        for name in other.reads:
            self.reads |= of_caller.get(name, set())
        for name in other.writes:
            self.writes |= of_caller.get(name, set())
        self.dots |= other.dots


class Launches:
    """The accesses of a JITFunction's launches. Only arguments that decide a branch tell launches apart: others, such
    as the seed of a dropout, may differ in each."""

    _MOST = 1000

    def __init__(self, kernel):
        self._kernel = kernel
        self._deciding = set()
        self._found = {}  # key of a launch -> Accesses

    def accesses(self, arguments):
        """Returns the accesses of a launch with `arguments`, by parameter."""
        found = self._found.get(self._key(arguments))
        if found is None:
            found = _of_launch(self._kernel, arguments)
            if not found.deciding <= self._deciding or len(self._found) >= self._MOST:
                self._deciding |= found.deciding
                self._found.clear()
            self._found[self._key(arguments)] = found
        return found

    def _key(self, arguments):
        return tuple(_constant(value) if name in self._deciding else _has_memory(value)
                     for name, value in arguments.items())


def _of_launch(kernel, arguments):
    """Tensors have memory, everything else is constant."""
    constants = {name: _plain(value) for name, value in arguments.items() if not _has_memory(value)}
    try:
        found = _Function(kernel, constants, depth=0).accesses
    except (SyntaxError, RecursionError, AttributeError):
        found = Accesses()
        found.deciding = set(constants)  # any constant may have decided
    if not found.writes:  # a kernel has some effect, through pointers that the analysis cannot see
        found.reads = found.writes = set(arguments)
    return found


def tensors_in(value):
    """Returns the tensors in an argument of a launch."""
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in tensors_in(item)]
    if hasattr(value, "data_ptr"):
        return [value]
    return tensors_in(value.base) if hasattr(value, "base") and hasattr(value, "block_shape") else []


def _has_memory(value):
    return hasattr(value, "data_ptr") or hasattr(value, "base") or isinstance(value, (tuple, list))


def _constant(value):
    """Returns the value that a branch of the kernel may depend on; for arguments with memory only the type."""
    value = _plain(value)
    return type(value) if _has_memory(value) or type(value).__hash__ is None else value


def _plain(value):
    return getattr(value, "value", value) if type(value).__name__ == "constexpr" else value


class _Function(ast.NodeVisitor):
    """Analyses the body of a function. The pass is repeated until no variable depends on a further parameter, since
    loops use values that are assigned later."""

    def __init__(self, function, constants, depth):
        self.accesses = Accesses()
        self._globals = function.fn.__globals__ | _nonlocals(function.fn)
        self._depth = depth
        body = function.parse().body[0]
        self.parameters = [argument.arg
                           for argument in (*body.args.posonlyargs, *body.args.args, *body.args.kwonlyargs)]
        assigned = {node.id for node in ast.walk(body)
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        self._constants = {name: value for name, value in constants.items() if name not in assigned}
        self._locals = assigned | set(self.parameters)
        self._origins = {name: {name} for name in self.parameters}
        self._changed = True
        while self._changed:
            self._changed = False
            for statement in body.body:
                self.visit(statement)

    def _of(self, node):
        """Returns the parameters that a value is computed from, except through memory."""
        if node is None or (isinstance(node, ast.Call) and _LOADS.search(_name(node.func))):
            return set()
        if isinstance(node, ast.Name):
            return self._origins.get(node.id, set())
        children = ast.iter_child_nodes(node)
        return set().union(*(self._of(child) for child in children))

    def _assign(self, target, origins):
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                known = self._origins.setdefault(node.id, set())
                if not origins <= known:
                    known |= origins
                    self._changed = True

    def visit_Assign(self, node):
        self.visit(node.value)
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = zip(target.elts, node.value.elts)
            for name, value in pairs:
                self._assign(name, self._of(value))

    def visit_AugAssign(self, node):
        self.visit(node.value)
        self._assign(node.target, self._of(node.value))

    def visit_AnnAssign(self, node):
        if node.value is not None:
            self.visit(node.value)
            self._assign(node.target, self._of(node.value))

    def visit_For(self, node):
        self.visit(node.iter)
        self._assign(node.target, self._of(node.iter))
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def visit_If(self, node):
        taken = self._value(node.test)
        for statement in (*(node.body if taken is not False else ()), *(node.orelse if taken is not True else ())):
            self.visit(statement)
        if taken is None:
            self.visit(node.test)

    def visit_IfExp(self, node):
        taken = self._value(node.test)
        for value in ((node.body,) if taken else (node.orelse,) if taken is False else (node.body, node.orelse)):
            self.visit(value)

    def visit_Call(self, node):
        self.generic_visit(node)
        name = _name(node.func)
        callee = self._callee(node.func)
        if hasattr(callee, "params") and not callee.__module__.startswith("triton.language"):  # another @triton.jit
            return self._call(callee, node)
        is_method = isinstance(node.func, ast.Attribute) and _root(node.func) in self._locals
        place = node.func.value if is_method else _argument(node, 0, ("pointer", "desc"))
        pointers = self._of(place)
        if _ATOMICS.search(name):
            everywhere = self._of(node) if "asm" in name else pointers
            self.accesses.reads |= everywhere
            self.accesses.writes |= everywhere
        elif _STORES.search(name):
            self.accesses.writes |= pointers
        elif _LOADS.search(name):
            self.accesses.reads |= pointers
        elif callee is None and not is_method:
            self.accesses.reads |= self._of(node)
            self.accesses.writes |= self._of(node)
        self.accesses.dots |= name in ("dot", "dot_scaled", "warpgroup_mma", "mma_v2")

    def _call(self, callee, node):
        if self._depth > 8:
            raise RecursionError
        named = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        values = dict(zip([p.name for p in callee.params], node.args)) | named
        constants = {}
        for name, value in values.items():
            known, constant = self._constant(value)
            if known:
                constants[name] = constant
        defaults = {p.name: _plain(p.default) for p in callee.params if p.has_default and p.name not in values}
        inner = _Function(callee, defaults | constants, self._depth + 1).accesses
        self.accesses.add(inner, {name: self._of(value) for name, value in values.items()})
        for name in inner.deciding & values.keys():
            self._decides(values[name])

    def _decides(self, node):
        self.accesses.deciding |= _names(node) & self._constants.keys()

    def _callee(self, function):
        """Returns the called object if the object is a global of the kernel or of an imported module."""
        if isinstance(function, ast.Name):
            if function.id in self._locals:
                return None
            builtins = self._globals.get("__builtins__", {})
            builtins = builtins if isinstance(builtins, dict) else vars(builtins)
            return self._globals.get(function.id, builtins.get(function.id))
        if isinstance(function, ast.Attribute):
            owner = self._callee(function.value)
            return getattr(owner, function.attr, None)
        return None

    def _constant(self, node):
        """Returns whether a value is the same in all programs of the launch, and the value."""
        names = _names(node)
        if any(isinstance(n, ast.Call) for n in ast.walk(node)) or any(
            name in self._locals and name not in self._constants for name in names
        ):
            return False, None
        known = {name: _plain(value) for name, value in self._globals.items() if name in names} | self._constants
        try:
            return True, eval(compile(ast.Expression(node), "<kernel>", "eval"), known)
        except Exception:
            return False, None

    def _value(self, test):
        """Returns True, False, or None if the kernel decides at run time. A tensor is not None."""
        if isinstance(test, ast.BoolOp):
            values = [self._value(value) for value in test.values]
            decides = isinstance(test.op, ast.Or)
            return decides if decides in values else None if None in values else not decides
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            value = self._value(test.operand)
            return None if value is None else not value
        if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and len(test.ops) == 1:
            against_none = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
            if against_none and test.left.id in self.parameters and test.left.id not in self._constants:
                return isinstance(test.ops[0], (ast.IsNot, ast.NotEq))
        self._decides(test)
        known, value = self._constant(test)
        return bool(value) if known else None


def _names(node):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _name(function):
    return (function.attr if isinstance(function, ast.Attribute)
            else function.id if isinstance(function, ast.Name) else "")


def _root(node):
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _argument(call, position, names):
    if position < len(call.args):
        return call.args[position]
    return next((keyword.value for keyword in call.keywords if keyword.arg in names), None)


def _nonlocals(function):
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    return {name: cell.cell_contents for name, cell in cells}
