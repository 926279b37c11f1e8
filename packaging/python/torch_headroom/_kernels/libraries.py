# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels of libraries: apex, DeepSpeed's optimizers, Mamba and causal-conv1d.

Sources. apex (amp_C, fused_layer_norm_cuda): github.com/NVIDIA/apex, csrc/amp_C_frontend.cpp, csrc/multi_tensor_*.cu,
csrc/layer_norm_cuda.cpp and csrc/layer_norm_cuda_kernel.cu, commit 6424da3b. DeepSpeed, which compiles kernels at first
use with a CUDA compiler: github.com/deepspeedai/DeepSpeed, csrc/adam, csrc/lion, csrc/lamb and csrc/adagrad, version
0.19.8. Mamba (selective_scan_cuda): github.com/state-spaces/mamba, csrc/selective_scan/selective_scan.cpp, commit
e9594ce1 (2.3). causal_conv1d_cuda: github.com/Dao-AILab/causal-conv1d, csrc/causal_conv1d.cpp, commit 0d2252d1
(1.6)."""

import functools
import importlib
import math

import torch

from .. import _remarks as remarks
from . import launches
from .opaque import module_of


def multi_tensor(name, written, chunk_size, noop_flag, tensor_lists, *numbers):
    """Launches a kernel over lists of tensors, which writes the lists from index `written` on. `numbers` may be
    tensors."""
    every = [tensor for tensors in tensor_lists for tensor in tensors]
    writes = [tensor for tensors in tensor_lists[written:] for tensor in tensors]
    reads = every + [number for number in numbers if isinstance(number, torch.Tensor)]
    launches.launch(name, reads, [*writes, noop_flag], how=launches.TABLE)


def l2norm(name, chunk_size, noop_flag, tensor_lists, *options):
    """Launches a kernel that computes the norm of a list of tensors, and of each tensor if the last option says so."""
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
    launches.launch(name, tensors, [*partial, norm, results], how=launches.TABLE)
    return norm, results


def _sums(input, count, *sizes):
    """Creates `count` tensors for sums over the input: of float32 for half precision, otherwise of the input's
    dtype."""
    dtype = torch.float32 if input.dtype in (torch.float16, torch.bfloat16) else input.dtype
    return [torch.empty(sizes, dtype=dtype, device=input.device) for _ in range(count)]


def _norm_forward(name, mean, affine, mixed, input, shape, *weights_and_epsilon):
    weights = [w for w in weights_and_epsilon if isinstance(w, torch.Tensor)] if affine else []
    out = torch.empty_like(input, dtype=weights[0].dtype if mixed else input.dtype)
    results = [out, *_sums(input, 2 if mean else 1, input.numel() // math.prod(shape))]
    launches.launch(f"fused_layer_norm_cuda.{name}", [input, *weights], results, how=launches.TABLE)
    return results


def _norm_backward(name, mean, affine, dout, *arguments):
    """Backward of a norm. The arguments are dout, mean, invvar, input or output, shape, weight, bias, epsilon and
    memory_efficient; norms without a mean or without weights leave mean or weights out."""
    given = list(arguments[: 3 if mean else 2])
    shape, rest = arguments[len(given)], arguments[len(given) + 1 :]
    input = given[-1]
    weights = list(rest[: (2 if mean else 1)]) if affine else []
    results = [torch.empty_like(input), *(torch.empty_like(weight) for weight in weights)]
    scratch = _sums(input, len(weights), 16, math.prod(shape))
    launches.launch(f"fused_layer_norm_cuda.{name}", [dout, *given, *weights], [*results, *scratch], how=launches.TABLE)
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


def _lamb(parameter, copy, exp_avg, exp_avg_sq, grad, *numbers):
    dtype = torch.float32 if parameter.dtype == torch.half else parameter.dtype
    make = functools.partial(torch.empty, dtype=dtype, device=parameter.device)
    weights, updates, coefficient = map(make, (512, 512, 1))
    written = [parameter, copy, exp_avg, exp_avg_sq, weights, updates, coefficient]
    launches.launch("fused_lamb.lamb", [parameter, exp_avg, exp_avg_sq, grad], written, how=launches.TABLE)
    return coefficient


def _skip_cpu_optimizer(name, *_):
    remarks.add(f"{name} of DeepSpeed runs on the CPU and was left out: no memory of the GPU is missing, but the "
                "step's time lacks the GPU's wait for the CPU")
    return 0


def _fused(kind):
    call = f"multi_tensor_{kind}"
    return {call: functools.partial(multi_tensor, f"fused_{kind}.{call}", 1)}


def _optimizer(kind):
    calls = (f"create_{kind}", f"{kind}_update", f"{kind}_rollback", f"destroy_{kind}")
    return {call: functools.partial(_skip_cpu_optimizer, f"cpu_{kind}") for call in calls}


_DEEPSPEED = {
    "deepspeed.ops.adam.fused_adam_op": _fused("adam"),
    "deepspeed.ops.lion.fused_lion_op": _fused("lion"),
    "deepspeed.ops.lamb.fused_lamb_op": {"lamb": _lamb},
    "deepspeed.ops.adam.cpu_adam_op": _optimizer("adam"),
    "deepspeed.ops.lion.cpu_lion_op": _optimizer("lion"),
    "deepspeed.ops.adagrad.cpu_adagrad_op": _optimizer("adagrad"),
}
MODULES |= _DEEPSPEED


def patch_deepspeed(builders):
    """Changes deepspeed.ops.op_builder.builder: an OpBuilder loads a stub instead of compiling, or, for unknown CUDA
    kernels, a module that refuses kernels by name."""
    build = builders.OpBuilder.load

    def load(builder, verbose=False):
        name = builder.absolute_name()
        if name in _DEEPSPEED:
            return importlib.import_module(name)
        return module_of(name) if isinstance(builder, builders.CUDAOpBuilder) else build(builder, verbose)

    builders.OpBuilder.load = load


def accept_norms(utils):
    """Changes deepspeed.runtime.utils: a norm of gradients counts as valid, so that training goes on. Without data the
    norm's sign is unknown."""
    is_invalid = utils.is_invalid_grad_norm
    utils.is_invalid_grad_norm = lambda norm: is_invalid(torch.ones_like(norm) if torch.is_tensor(norm) else norm)


_CHUNK = 2048  # number of positions that share one kept state
_PER_STATE = 9  # flops per position, channel and state (selective_scan_flop_count by Mamba's authors)


def _scan_flops(u, state):
    return _PER_STATE * u.numel() * state.shape[1]


def scan_fwd(u, delta, A, B, C, D, z, delta_bias, delta_softplus):
    batch, channels, length = u.shape
    out_z = [] if z is None else [torch.empty_like(z)]
    out = torch.empty_like(delta)
    x = torch.empty(batch, channels, -(-length // _CHUNK), A.shape[1] * 2, dtype=A.dtype, device=u.device)
    reads = [u, delta, A, B, C, D, z, delta_bias]
    launches.launch("selective_scan_cuda.fwd", reads, [out, x, *out_z], _scan_flops(u, A), launches.TABLE)
    return [out, x, *out_z]


def scan_bwd(u, delta, A, B, C, D, z, delta_bias, dout, x, out, dz, delta_softplus, recompute_out_z):
    if z is not None and dz is None:
        dz = torch.empty_like(z)
    out_z = [torch.empty_like(out)] if z is not None and recompute_out_z else []
    du, ddelta = torch.empty_like(u), torch.empty_like(delta)
    dA = torch.zeros_like(A)
    # B and C that vary with the position are summed in float32.
    dB, dC = (torch.zeros_like(t, dtype=torch.float32 if t.dim() >= 3 else t.dtype) for t in (B, C))
    dD, ddelta_bias = (None if t is None else torch.zeros_like(t) for t in (D, delta_bias))
    writes = [du, ddelta, dA, dB, dC, dD, ddelta_bias, dz, *out_z]
    work = 3 * _scan_flops(u, A)  # the forward again, and two scans of gradients
    launches.launch("selective_scan_cuda.bwd", [u, delta, A, B, C, D, z, delta_bias, dout, x, out], writes, work,
                    launches.TABLE)
    results = [du, ddelta, dA, dB.to(B.dtype), dC.to(C.dtype), dD, ddelta_bias]
    return results + ([] if z is None else [dz]) + out_z


def conv_fwd(x, weight, bias, seq_idx, initial_states, out, final_states_out, silu_activation):
    launches.launch("causal_conv1d_cuda.causal_conv1d_fwd", [x, weight, bias, seq_idx, initial_states],
                    [out, final_states_out], 2 * x.numel() * weight.shape[-1], launches.TABLE)


def conv_bwd(x, weight, bias, dout, seq_idx, initial_states, dfinal_states, dx, dweight, dbias, dinitial_states,
             silu_activation):
    batch, channels, length = x.shape
    last = x.stride(1) == 1 and x.stride(2) > 1  # channels last
    if dout.stride(1 if last else 2) != 1:
        dout = dout.transpose(-1, -2).contiguous().transpose(-1, -2) if last else dout.contiguous()
    workspaces = []
    if torch.are_deterministic_algorithms_enabled():
        parts = (batch, -(-length // (64 if length <= 128 else 128))) if last else (batch,)
        sizes = [(*parts, channels, weight.shape[-1])] + ([] if dbias is None else [(*parts, channels)])
        workspaces = [torch.zeros(size, dtype=torch.float32, device=x.device) for size in sizes]
    reads = [x, weight, bias, dout, seq_idx, initial_states, dfinal_states]
    writes = [dx, dweight, dbias, dinitial_states, *workspaces]
    launches.launch("causal_conv1d_cuda.causal_conv1d_bwd", reads, writes, 6 * x.numel() * weight.shape[-1],
                    launches.TABLE)
    for target, workspace in zip((dweight, dbias), workspaces):
        target.add_(workspace.sum((0, 1) if last else 0))


MODULES |= {
    "selective_scan_cuda": {"fwd": scan_fwd, "bwd": scan_bwd},
    "causal_conv1d_cuda": {"causal_conv1d_fwd": conv_fwd, "causal_conv1d_bwd": conv_bwd},
}
