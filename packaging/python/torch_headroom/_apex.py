# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declarations of apex's kernels in amp_C and fused_layer_norm_cuda. Source: github.com/NVIDIA/apex,
csrc/amp_C_frontend.cpp, csrc/multi_tensor_*.cu, csrc/layer_norm_cuda.cpp and csrc/layer_norm_cuda_kernel.cu, commit
6424da3b."""

import functools
import math

import torch

from . import _opaque


def multi_tensor(name, written, chunk_size, noop_flag, tensor_lists, *numbers):
    """Launches a kernel over lists of tensors, which writes the lists from index `written` on. `numbers` may be
    tensors."""
    every = [tensor for tensors in tensor_lists for tensor in tensors]
    writes = [tensor for tensors in tensor_lists[written:] for tensor in tensors]
    reads = every + [number for number in numbers if isinstance(number, torch.Tensor)]
    _opaque.launch(name, reads, [*writes, noop_flag], how=_opaque.TABLE)


def l2norm(name, chunk_size, noop_flag, tensor_lists, *options):
    """Launches a kernel that computes the norm of a list of tensors, and of each one if the last option says so."""
    tensors = tensor_lists[0]
    per_tensor = bool(options and options[-1])

    def floats(make, count):
        return make(count, dtype=torch.float32, device=noop_flag.device)

    partial = [floats(torch.zeros, 320)]
    results = floats(torch.empty, len(tensors) if per_tensor else 0)
    if per_tensor:
        chunks = max(-(-tensor.numel() // chunk_size) for tensor in tensors)
        partial.append(floats(torch.zeros, len(tensors) * chunks))
    norm = floats(torch.empty, 1)
    _opaque.launch(name, tensors, [*partial, norm, results], how=_opaque.TABLE)
    return norm, results


def _sums(input, count, *sizes):
    """Creates `count` tensors for sums over the input: of float32 for half precision, otherwise of its dtype."""
    dtype = torch.float32 if input.dtype in (torch.float16, torch.bfloat16) else input.dtype
    return [torch.empty(sizes, dtype=dtype, device=input.device) for _ in range(count)]


def _norm_forward(name, mean, affine, mixed, input, shape, *weights_and_epsilon):
    weights = [w for w in weights_and_epsilon if isinstance(w, torch.Tensor)] if affine else []
    out = torch.empty_like(input, dtype=weights[0].dtype if mixed else input.dtype)
    results = [out, *_sums(input, 2 if mean else 1, input.numel() // math.prod(shape))]
    _opaque.launch(f"fused_layer_norm_cuda.{name}", [input, *weights], results, how=_opaque.TABLE)
    return results


def _norm_backward(name, mean, affine, dout, *arguments):
    """Backward of a norm. The arguments are dout, mean, invvar, input or output, shape, weight, bias, epsilon and
    memory_efficient; norms without a mean or without weights leave those out."""
    given = list(arguments[: 3 if mean else 2])
    shape, rest = arguments[len(given)], arguments[len(given) + 1 :]
    input = given[-1]
    weights = list(rest[: (2 if mean else 1)]) if affine else []
    results = [torch.empty_like(input), *(torch.empty_like(weight) for weight in weights)]
    scratch = _sums(input, len(weights), 16, math.prod(shape))
    _opaque.launch(f"fused_layer_norm_cuda.{name}", [dout, *given, *weights], [*results, *scratch], how=_opaque.TABLE)
    return results if affine else results[0]


_WRITTEN = {  # index of the first list that a kernel writes
    "multi_tensor_scale": 1, "multi_tensor_axpby": 2, "multi_tensor_sgd": 1, "multi_tensor_adam": 1,
    "multi_tensor_adam_capturable": 1, "multi_tensor_adam_capturable_master": 1, "multi_tensor_adagrad": 1,
    "multi_tensor_novograd": 1, "multi_tensor_lamb": 0,
}  # fmt: skip
_AMP = {name: functools.partial(multi_tensor, f"amp_C.{name}", first) for name, first in _WRITTEN.items()}
_AMP |= {"multi_tensor_l2norm": functools.partial(l2norm, "amp_C.multi_tensor_l2norm")}

_NORMS = {}
for _prefix, _mean in (("", True), ("rms_", False)):
    for _suffix, _affine, _mixed in (("", False, False), ("_affine", True, False),
                                     ("_affine_mixed_dtypes", True, True)):
        _name = f"{_prefix}forward{_suffix}"
        _NORMS[_name] = functools.partial(_norm_forward, _name, _mean, _affine, _mixed)
    for _suffix, _affine in (("", False), ("_affine", True)):
        _name = f"{_prefix}backward{_suffix}"
        _NORMS[_name] = functools.partial(_norm_backward, _name, _mean, _affine)

MODULES = {"amp_C": _AMP, "fused_layer_norm_cuda": _NORMS}
