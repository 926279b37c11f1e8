# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels of selective_scan_cuda and causal_conv1d_cuda. Sources: github.com/state-spaces/mamba,
csrc/selective_scan/selective_scan.cpp, commit e9594ce1 (2.3); github.com/Dao-AILab/causal-conv1d,
csrc/causal_conv1d.cpp, commit 0d2252d1 (1.6)."""

import torch

from . import _opaque

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
    _opaque.launch("selective_scan_cuda.fwd", reads, [out, x, *out_z], _scan_flops(u, A), _opaque.TABLE)
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
    _opaque.launch("selective_scan_cuda.bwd", [u, delta, A, B, C, D, z, delta_bias, dout, x, out], writes, work,
                   _opaque.TABLE)
    results = [du, ddelta, dA, dB.to(B.dtype), dC.to(C.dtype), dD, ddelta_bias]
    return results + ([] if z is None else [dz]) + out_z


def conv_fwd(x, weight, bias, seq_idx, initial_states, out, final_states_out, silu_activation):
    _opaque.launch("causal_conv1d_cuda.causal_conv1d_fwd", [x, weight, bias, seq_idx, initial_states],
                   [out, final_states_out], 2 * x.numel() * weight.shape[-1], _opaque.TABLE)


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
    _opaque.launch("causal_conv1d_cuda.causal_conv1d_bwd", reads, writes, 6 * x.numel() * weight.shape[-1],
                   _opaque.TABLE)
    for target, workspace in zip((dweight, dbias), workspaces):
        target.add_(workspace.sum((0, 1) if last else 0))


MODULES = {
    "selective_scan_cuda": {"fwd": scan_fwd, "bwd": scan_bwd},
    "causal_conv1d_cuda": {"causal_conv1d_fwd": conv_fwd, "causal_conv1d_bwd": conv_bwd},
}
