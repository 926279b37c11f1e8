# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch_headroom.opaque(), which declares the user's own kernels, and stubs of extension modules with CUDA kernels. A
stub's functions create results of the same shape and element type, in the same order, and launch an opaque kernel. A
stub is used if the Python part of the library is installed, whether the library's kernels were built or not. Each
function cites the source of the facts: repository, file, version."""

import functools
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import pathlib
import sys
import types

from .._library import HeadroomError


def opaque(target=None, *, results=None, mutates=(), reads=None, flops=0):
    """Declares what a kernel from outside PyTorch does, for the simulated GPU. On a real GPU a declaration changes
    nothing.

    `target` is the Python function that launches the kernel (through ctypes, an extension module or another compiler),
    as a decorator; or a name: "module.function" of an extension module, which need not be built, or "library::op" of
    torch.library.

    `results(*arguments)` creates what the call returns, by torch.empty() or similar: only sizes, element types and
    order matter. Without `results` the call returns None. `mutates` are the arguments that the kernel writes, by name
    or position. The kernel's time is the time of moving each tensor among arguments and results once, and of computing
    `flops`, a number or a function of the arguments. `reads(*arguments)`, if given, returns the tensors to count
    instead of the arguments. Raises HeadroomError for a name without a kernel.
    """
    kernel = functools.partial(_launch, results, mutates, reads, flops)
    if target is None:
        return lambda function: _instead_of(function, kernel)
    if callable(target):
        return _instead_of(target, kernel)
    if _is_simulated():
        _by_name(target, kernel, results)
    return None


def _is_simulated():
    from .._simulate import simulated_card

    return simulated_card() is not None


def _instead_of(function, kernel):
    name = f"{function.__module__}.{function.__qualname__}"

    @functools.wraps(function)
    def call(*arguments, **named):
        if not _is_simulated():
            return function(*arguments, **named)
        return kernel(name, list(inspect.signature(function).parameters), arguments, named)

    return call


def _by_name(target, kernel, results):
    import torch


    namespace, colons, op = target.partition("::")
    module, dot, function = target.rpartition(".")
    if colons:
        overload = getattr(getattr(torch.ops, namespace), op, None)
        if overload is None:
            raise HeadroomError(f"torch_headroom.opaque: there is no op {target}: define the op by torch.library first")
        names = [argument.name for argument in overload.default._schema.arguments]
        _library_of(namespace).impl(op, lambda *arguments, **named: kernel(target, names, arguments, named),
                                    "PrivateUse1", allow_override=True)
    elif dot:
        names = list(inspect.signature(results).parameters) if results else []
        extend(module, {function: lambda *arguments, **named: kernel(target, names, arguments, named)})
    else:
        raise HeadroomError(f"torch_headroom.opaque: {target!r} names no kernel: expected module.function, or "
                            "library::op of torch.library")


@functools.cache
def _library_of(namespace):
    import torch

    return torch.library.Library(namespace, "FRAGMENT")  # the object's end would take the kernels away


def _launch(results, mutates, reads, flops, name, names, arguments, named):
    from . import launches

    made = results(*arguments, **named) if results else None
    written = [_argument(name, key, names, arguments, named) for key in mutates]
    if not results and not mutates:
        written = (*arguments, *named.values())  # the kernel must have some effect
    read = reads(*arguments, **named) if reads else (*arguments, *named.values())
    count = flops(*arguments, **named) if callable(flops) else flops
    launches.launch(name, _tensors(read), [*_tensors(made), *_tensors(written)], count)
    return made


def _argument(name, key, names, arguments, named):
    if key in named:
        return named[key]
    position = names.index(key) if key in names else key
    if isinstance(position, str) or position >= len(arguments):
        raise HeadroomError(f"torch_headroom.opaque: {name} was called without the mutated argument {key!r}")
    return arguments[position]


def _tensors(value):
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


class Extension:
    """The extension module of a `package`; `module` (of this package) has the stub's functions."""

    def __init__(self, package, distribution, module, least=None, register=None):
        self.package = package
        self.distribution = distribution
        self.module = module
        self.least = least  # oldest version with these signatures
        self.register = register  # name of a function that registers ops, for a module without functions

    def is_installed(self):
        """Returns whether the Python part of the library is installed."""
        return importlib.util.find_spec(self.package) is not None

    def check(self):
        try:
            version = importlib.metadata.version(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            return
        numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
        if self.least and numbers < self.least:
            oldest = ".".join(map(str, self.least))
            raise HeadroomError(f"{self.distribution} {version} is older than what Headroom knows the kernels of: "
                                f"expected at least {oldest}")


EXTENSIONS = {
    "flash_attn_2_cuda": Extension("flash_attn", "flash-attn", "attention", (2, 7)),
    "flash_attn_3._C": Extension("flash_attn_3", "flash-attn-3", "attention",
                                 register="register_flash_attn_3"),
    "selective_scan_cuda": Extension("mamba_ssm", "mamba-ssm", "libraries", (2, 0)),
    "causal_conv1d_cuda": Extension("causal_conv1d", "causal-conv1d", "libraries", (1, 2)),
    "amp_C": Extension("apex", "apex", "libraries"),
    "fused_layer_norm_cuda": Extension("apex", "apex", "libraries"),
    "transformer_engine_torch": Extension("transformer_engine", "transformer-engine", "transformer_engine", (2, 20)),
}
EXTENSIONS |= {
    f"deepspeed.ops.{name}_op": Extension("deepspeed", "deepspeed", "libraries")
    for name in ("adam.fused_adam", "adam.cpu_adam", "lion.fused_lion", "lion.cpu_lion", "lamb.fused_lamb",
                 "adagrad.cpu_adagrad")
}

# Modules without a stub: an import raises an error.
REFUSED = {"flash_attn_3_cuda": "flash-attn 3 before version 3.0"}


def spec_of(name):
    """Returns the spec of the replacement of a module; None: there is none."""
    has_stub = name in REFUSED or (name in EXTENSIONS and EXTENSIONS[name].is_installed())
    return importlib.machinery.ModuleSpec(name, _Loader(), origin="torch_headroom") if has_stub else None


class _Loader:
    def create_module(self, spec):
        if spec.name in REFUSED:
            raise ImportError(
                f"{REFUSED[spec.name]} launches own CUDA kernels, and Headroom's simulated GPU runs no kernels: "
                "choose PyTorch's implementation, or declare what the kernels read and write by "
                "torch_headroom.opaque()", name=spec.name)
        EXTENSIONS[spec.name].check()
        return _Module(spec.name)

    def exec_module(self, module):
        extension = EXTENSIONS[module.__name__]
        functions = importlib.import_module(f".{extension.module}", __package__)
        vars(module).update(functions.MODULES.get(module.__name__, {}))
        if extension.register:
            getattr(functions, extension.register)()


class NoKernel(HeadroomError, AttributeError):
    """Raised for a kernel that is not in the table; an AttributeError, so that hasattr() works."""


class _Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise NoKernel(f"{self.__name__}.{name} is not among the kernels that Headroom knows: declare the results "
                       f"by torch_headroom.opaque({self.__name__!r}, {name!r}, …)")


# Namespaces of torch.library in which all ops call PyTorch's kernels, or kernels of EXTENSIONS.
_KNOWN = ("flash_attn", "flash_attn_3", "xformers_flash", "xformers_flash3", "te_attention", "te_kv_cache")


def run_own_code_of_ops(torch):
    """Registers kernels that Python code registers for CUDA (custom_op, torch.library.impl) for the simulated GPU, too:
    launches and allocations are then part of the step, and not only the sizes of results. A package with compiled
    libraries, which the kernels may call, is left out: only the package's fake implementations run."""
    impl = torch.library.Library.impl
    simulated = "PrivateUse1"

    @functools.wraps(impl)
    def impl_of_both(self, op_name, fn, dispatch_key="", **options):
        impl(self, op_name, fn, dispatch_key, **options)
        if (dispatch_key or self.dispatch_key) != "CUDA" or self.ns == "aten":
            return
        if self.ns not in _KNOWN and _has_libraries(_calling_package()):
            return
        name = str(getattr(op_name, "_name", op_name)).removeprefix(f"{self.ns}::")
        if options.get("allow_override") or f"{self.ns}/{name}/{simulated}" not in torch.library._impls:
            impl(self, op_name, fn, simulated, **options)

    torch.library.Library.impl = impl_of_both


def _calling_package():
    """Returns the name of the package whose code runs, other than PyTorch and Headroom."""
    frame = sys._getframe(1)
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in ("torch", __package__.partition(".")[0]):
            return package
        frame = frame.f_back
    return ""


@functools.cache
def _has_libraries(package):
    folders = getattr(sys.modules.get(package), "__path__", ())
    return any(next(pathlib.Path(folder).rglob("*.so"), None) for folder in folders)


def extend(name, functions):
    """Adds functions of the user to an extension module, which need not exist."""
    vars(module_of(name)).update(functions)


def module_of(name):
    """Returns the imported extension module of this name, or a module without functions."""
    module = sys.modules.get(name)
    if module is None:
        module = sys.modules[name] = _Module(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, origin="torch_headroom")
    return module
