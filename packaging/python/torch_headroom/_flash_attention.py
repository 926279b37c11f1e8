# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels of flash_attn_2_cuda. Source: github.com/Dao-AILab/flash-attention, csrc/flash_attn/flash_api.cpp, commit
0251105a (2.8)."""

import torch

from . import _opaque
from ._attention_work import BACKWARD, FORWARD, flops
from ._opaque import rounded

_WIDEST = 256  # largest width of a head


def _rounded_width(width):
    return rounded(width, 32 if width <= 128 else 64)


def check_dtypes(query, key, value):
    for name, other in (("key", key), ("value", value)):
        if other.dtype != query.dtype:
            raise RuntimeError(f"query and {name} must have the same dtype")


def _check(query, key, value):
    if torch.cuda.get_device_capability()[0] < 8:
        raise RuntimeError("flash-attn 2 needs a GPU of compute capability 8.0 or newer")
    if query.dtype not in (torch.float16, torch.bfloat16):
        raise RuntimeError(f"flash-attn 2 takes float16 and bfloat16, and got {query.dtype}")
    check_dtypes(query, key, value)
    if query.shape[-1] > _WIDEST or query.shape[-1] % 8:
        raise RuntimeError(f"flash-attn 2 takes heads of a width up to {_WIDEST} that is a multiple of 8, got "
                           f"{query.shape[-1]}")


def floats(query, *sizes):
    """Creates a tensor of float32 on the device of `query`."""
    return torch.empty(sizes, dtype=torch.float32, device=query.device)


def _splits(blocks, processors, key_blocks, most=128):
    """Returns the number of parts into which the keys are split so that few queries fill the card
    (num_splits_heuristic)."""
    if blocks >= 0.8 * processors:
        return 1
    most = min(most, processors, key_blocks)
    efficiency = {}
    for splits in range(1, most + 1):
        if splits == 1 or -(-key_blocks // splits) != -(-key_blocks // (splits - 1)):
            waves = blocks * splits / processors
            efficiency[splits] = waves / -(-blocks * splits // processors)
    best = max(efficiency.values(), default=1)
    return next((splits for splits, value in efficiency.items() if value >= 0.85 * best), 1)


def _parts(query, batch, length, key_length, dropout):
    """Creates the scratch tensors of a forward that splits keys; the call frees them (set_params_splitkv)."""
    heads, width = query.shape[-2:]
    key_block = 256 if width <= 64 else 128 if width <= 128 else 64
    processors = 2 * torch.cuda.get_device_properties(query.device).multi_processor_count
    splits = _splits(batch * heads * -(-length // 64), processors, -(-key_length // key_block))
    if dropout or splits < 2:
        return ()
    return (floats(query, splits, batch, heads, length),
            floats(query, splits, batch, heads, length, _rounded_width(width)))


def _forward(name, query, key, value, out, slopes, dropout, window, causal, keeps_probabilities, shape, ends=None):
    """Runs mha_fwd or mha_varlen_fwd."""
    _check(query, key, value)
    batch, length, key_length = shape
    heads = query.shape[-2]
    out = torch.empty_like(query) if out is None else out
    lse = floats(query, *((batch, heads, length) if ends is None else (heads, query.shape[0])))
    sizes = (batch, heads, rounded(length, 128), rounded(key_length, 128)) if keeps_probabilities else (0,)
    probabilities = torch.empty(sizes, dtype=query.dtype, device=query.device)
    parts = _parts(query, batch, length, key_length, dropout) if ends is None else ()
    random_state = torch.empty(2, dtype=torch.int64, device=query.device)
    work = flops(query, key, value, FORWARD, causal, window, ends)
    _opaque.launch(name, [query, key, value, slopes, *(ends or ())], [out, lse, probabilities, *parts, random_state],
                   work, _opaque.TABLE)
    return [out, lse, probabilities, random_state]


def fwd(q, k, v, out, alibi_slopes, p_dropout, softmax_scale, is_causal, left, right, softcap, return_softmax,
        generator=None):
    shape = q.shape[0], q.shape[1], k.shape[1]
    return _forward("flash_attn_2_cuda.fwd", q, k, v, out, alibi_slopes, p_dropout, (left, right), is_causal,
                    return_softmax, shape)


def varlen_fwd(q, k, v, out, cu_seqlens_q, cu_seqlens_k, seqused_k, leftpad_k, block_table, alibi_slopes, max_seqlen_q,
               max_seqlen_k, p_dropout, softmax_scale, zero_tensors, is_causal, left, right, softcap, return_softmax,
               generator=None, num_splits=0):
    shape = cu_seqlens_q.numel() - 1, max_seqlen_q, max_seqlen_k
    return _forward("flash_attn_2_cuda.varlen_fwd", q, k, v, out, alibi_slopes, p_dropout, (left, right), is_causal,
                    return_softmax, shape, (cu_seqlens_q, cu_seqlens_k))


def _backward(name, dout, q, k, v, out, lse, dq, dk, dv, window, causal, deterministic, shape, ends=None):
    """Runs mha_bwd or mha_varlen_bwd."""
    _check(q, k, v)
    batch, length = shape
    heads, width = q.shape[-2:]
    dq, dk, dv = (torch.empty_like(of) if given is None else given for given, of in ((dq, q), (dk, k), (dv, v)))
    if ends is None:
        rows = (batch, rounded(length, 128))
        delta = floats(q, batch, heads, rows[1])
    else:
        rows = (q.shape[0] + 128 * batch,)
        delta = floats(q, heads, *rows)
    sums = (*rows, heads, _rounded_width(width))
    if deterministic:
        processors = torch.cuda.get_device_properties(q.device).multi_processor_count
        dq_sum = torch.zeros(-(-processors // (batch * heads)), *sums, dtype=torch.float32, device=q.device)
    else:
        dq_sum = floats(q, *sums)
    expanded = []
    if k.shape[-2] != heads:  # one gradient for each query head; they are summed afterwards
        expanded = [torch.empty(*k.shape[:-2], heads, width, dtype=q.dtype, device=q.device) for _ in range(2)]
    work = flops(q, k, v, BACKWARD, causal, window, ends)
    reads = [dout, q, k, v, out, lse, *expanded, *(ends or ())]
    _opaque.launch(name, reads, [dq, dk, dv, delta, dq_sum, *expanded], work, _opaque.TABLE)
    return [dq, dk, dv, delta]


def bwd(dout, q, k, v, out, softmax_lse, dq, dk, dv, alibi_slopes, p_dropout, softmax_scale, is_causal, left, right,
        softcap, deterministic, generator=None, rng_state=None):
    return _backward("flash_attn_2_cuda.bwd", dout, q, k, v, out, softmax_lse, dq, dk, dv, (left, right), is_causal,
                     deterministic, q.shape[:2])


def varlen_bwd(dout, q, k, v, out, softmax_lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, alibi_slopes, max_seqlen_q,
               max_seqlen_k, p_dropout, softmax_scale, zero_tensors, is_causal, left, right, softcap, deterministic,
               generator=None, rng_state=None):
    shape = cu_seqlens_q.numel() - 1, max_seqlen_q
    return _backward("flash_attn_2_cuda.varlen_bwd", dout, q, k, v, out, softmax_lse, dq, dk, dv, (left, right),
                     is_causal, deterministic, shape, (cu_seqlens_q, cu_seqlens_k))


MODULES = {"flash_attn_2_cuda": {"fwd": fwd, "varlen_fwd": varlen_fwd, "bwd": bwd, "varlen_bwd": varlen_bwd}}
