# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch_headroom.opaque(): declarations of the user's own kernels."""

import functools
import inspect

from ._library import HeadroomError


def opaque(target=None, *, results=None, mutates=(), reads=None, flops=0):
    """Declares what a kernel from outside PyTorch does, for the simulated GPU. On a real GPU it changes nothing.

    `target` is the Python function that launches the kernel (through ctypes, an extension module or another compiler),
    as a decorator; or a name: "module.function" of an extension module, which need not be built, or "library::op" of
    torch.library.

    `results(*arguments)` creates what the call returns, by torch.empty() or similar: only sizes, element types and
    order matter. Without it the call returns None. `mutates` are the arguments that the kernel writes, by name or
    position. The kernel's time is that of moving each tensor among arguments and results once, and of computing
    `flops`, a number or a function of the arguments. `reads(*arguments)`, if given, returns the tensors to count
    instead of the arguments.
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
    from ._simulate import simulated_card

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

    from ._extensions import extend

    namespace, colons, op = target.partition("::")
    module, dot, function = target.rpartition(".")
    if colons:
        overload = getattr(getattr(torch.ops, namespace), op, None)
        if overload is None:
            raise HeadroomError(f"torch_headroom.opaque: there is no op {target}: define it by torch.library first")
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

    return torch.library.Library(namespace, "FRAGMENT")  # its end would take the kernels away


def _launch(results, mutates, reads, flops, name, names, arguments, named):
    from . import _opaque

    made = results(*arguments, **named) if results else None
    written = [_argument(name, key, names, arguments, named) for key in mutates]
    if not results and not mutates:
        written = (*arguments, *named.values())  # the kernel must have some effect
    read = reads(*arguments, **named) if reads else (*arguments, *named.values())
    count = flops(*arguments, **named) if callable(flops) else flops
    _opaque.launch(name, _tensors(read), [*_tensors(made), *_tensors(written)], count)
    return made


def _argument(name, key, names, arguments, named):
    if key in named:
        return named[key]
    position = names.index(key) if key in names else key
    if isinstance(position, str) or position >= len(arguments):
        raise HeadroomError(f"torch_headroom.opaque: {name} was called without the argument {key!r} that it mutates")
    return arguments[position]


def _tensors(value):
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
