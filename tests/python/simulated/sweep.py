# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs torch's own samples of an op on the CPU and on the simulated device, and says how the results differ."""

import dataclasses
import itertools
import warnings

import torch
from torch.utils import _pytree as pytree

from device import Twins


@dataclasses.dataclass
class Outcome:
    """One direction (forward or backward) of one op: how many results were compared, and the first difference."""

    compared: int = 0
    different: int = 0
    example: str = ""

    def add(self, difference):
        self.compared += 1
        if difference:
            self.different += 1
            self.example = self.example or difference


class Unusable(Exception):
    """The CPU cannot run this sample, or it is of a kind that the device does not hold."""


def describe(tensors, others):
    """Sizes, strides, dtypes, and with which tensor before it each one shares its storage."""
    before = [t.untyped_storage()._cdata for t in others if isinstance(t, torch.Tensor)]
    lines = []
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            lines.append(type(tensor).__name__)
            continue
        storage = tensor.untyped_storage()._cdata
        shares = before.index(storage) if storage in before and tensor.untyped_storage().nbytes() > 0 else None
        before.append(storage)
        stride = [s for s, size in zip(tensor.stride(), tensor.size()) if size != 1] if tensor.numel() > 0 else []
        lines.append(f"{tensor.dtype} {tuple(tensor.size())} strides {stride} offset {tensor.storage_offset()}"
                     + (f" shares {shares}" if shares is not None else ""))
    return lines


def leaves_of(arguments):
    """Tensors of nested arguments in order."""
    return [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]


class Call:
    """One sample on one device: first forward, then gradients of its results."""

    def __init__(self, op, arguments):
        self._op = op
        self._positional, self._named = arguments
        self._inputs = leaves_of(arguments)
        self._results = []

    def forward(self):
        self._results = pytree.tree_leaves(self._op(*self._positional, **self._named))
        return describe(self._results, self._inputs)

    def backward(self):
        wanted = [t for t in self._inputs if t.requires_grad and t.is_leaf]
        results = [t for t in self._results if isinstance(t, torch.Tensor) and t.requires_grad]
        if not wanted or not results:
            return None
        seeds = [torch.ones_like(t) for t in results]
        gradients = torch.autograd.grad(results, wanted, seeds, allow_unused=True)
        return describe(gradients, seeds)


def difference(step, onCpu, onDevice):
    """What step(call) gives differently; None when it is the same; Unusable where the CPU gives nothing."""
    try:
        expected = step(onCpu)
    except Exception as error:
        raise Unusable(str(error)) from error
    if expected is None:
        raise Unusable("nothing to compare")
    try:
        actual = step(onDevice)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    if actual == expected:
        return None
    pairs = itertools.zip_longest(expected, actual)
    return next(f"result {i}: CPU {want}; simulated {got}" for i, (want, got) in enumerate(pairs) if want != got)


def twin_of(op, arguments, device):
    """The arguments on the simulated device, but those that CUDA wants on the CPU too."""
    positional, named = pytree.tree_map(Twins(device).of, arguments)
    if op.name == "tensor_split":
        positional = (positional[0], *arguments[0][1:])
    return positional, named


def sweep(op, dtype, device, limit, forward, backward):
    """Adds the outcomes of at most `limit` samples of an op on `device`; None: of all."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gradient = dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
        for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=gradient), limit):
            arguments = ((sample.input, *sample.args), sample.kwargs)
            if any(t.layout != torch.strided or t.is_nested or t.is_quantized for t in leaves_of(arguments)):
                continue
            onCpu = Call(op, arguments)
            onDevice = Call(op, twin_of(op, arguments, device))
            try:
                different = difference(Call.forward, onCpu, onDevice)
                forward.add(different)
                if not different:
                    backward.add(difference(Call.backward, onCpu, onDevice))
            except Unusable:
                continue
