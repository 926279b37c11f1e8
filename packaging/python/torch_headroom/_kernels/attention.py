# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels of flash-attn 2 and 3, and the flops of attention: two matrix products forward, five backward, over the pairs
of a query and a key that the mask permits. Sources: github.com/Dao-AILab/flash-attention, csrc/flash_attn/flash_api.cpp
(flash_attn_2_cuda, 2.8) and hopper/flash_api.cpp (torch.ops.flash_attn_3, registered by `import flash_attn_3._C`, 3.0),
commit 0251105a."""

import ctypes
import functools

import torch

from .._library import HeadroomError, load
from . import launches
from .launches import rounded

FORWARD, BACKWARD = 2, 5  # products of [length, width] matrices


@functools.lru_cache(4096)
def pairs(queries, keys, left=-1, right=-1):
    """Returns the number of pairs in one sequence and head. The last query is aligned with the last key. `left` and
    `right` are the size of the window in tokens; -1: unlimited."""
    shift = keys - queries
    count = 0
    for i in range(queries):
        first = 0 if left < 0 else max(0, i + shift - left)
        last = keys - 1 if right < 0 else min(keys - 1, i + shift + right)
        count += max(0, last - first + 1)
    return count


def flops(query, key, value, products, causal, window, ends=None):
    """Returns the flops. `query`, `key` and `value` are [batch, length, heads, width]. With `ends`, the tensors of the
    cumulative lengths of query and key sequences, the shape is [all tokens, heads, width]."""
    right = 0 if causal else window[1]
    width = query.shape[-1] if products == BACKWARD else (query.shape[-1] + value.shape[-1]) / 2
    heads = query.shape[-2]
    if ends is None:
        count = query.shape[0] * pairs(query.shape[1], key.shape[1], window[0], right)
    else:
        lengths = zip(lengths_of(ends[0], query.shape[0]), lengths_of(ends[1], key.shape[0]))
        count = sum(pairs(queries, keys, window[0], right) for queries, keys in lengths)
    return int(2 * products * count * heads * width)


def lengths_of(ends, total):
    """Returns the lengths of sequences from their cumulative sums `ends`; equal lengths if the sums are not known."""
    count = ends.numel()
    values = (ctypes.c_int64 * count)()
    if load().headroom_known_integers(ctypes.c_void_p(ends._cdata), values):
        return [end - begin for begin, end in zip(values, values[1:])]
    return [total // max(count - 1, 1)] * (count - 1)


_WIDEST = 256  # largest width of a head


def _rounded_width(width):
    return rounded(width, 32 if width <= 128 else 64)


def check_dtypes(query, key, value):
    for name, other in (("key", key), ("value", value)):
        if other.dtype != query.dtype:
            raise RuntimeError(f"query and {name} must have the same dtype")


def _check_fa2(query, key, value):
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


def _fa2_forward(name, query, key, value, out, slopes, dropout, window, causal, keeps_probabilities, shape, ends=None):
    """Runs mha_fwd or mha_varlen_fwd."""
    _check_fa2(query, key, value)
    batch, length, key_length = shape
    heads = query.shape[-2]
    out = torch.empty_like(query) if out is None else out
    lse = floats(query, *((batch, heads, length) if ends is None else (heads, query.shape[0])))
    sizes = (batch, heads, rounded(length, 128), rounded(key_length, 128)) if keeps_probabilities else (0,)
    probabilities = torch.empty(sizes, dtype=query.dtype, device=query.device)
    parts = _parts(query, batch, length, key_length, dropout) if ends is None else ()
    random_state = torch.empty(2, dtype=torch.int64, device=query.device)
    work = flops(query, key, value, FORWARD, causal, window, ends)
    launches.launch(name, [query, key, value, slopes, *(ends or ())], [out, lse, probabilities, *parts, random_state],
                    work, launches.TABLE)
    return [out, lse, probabilities, random_state]


def fa2_fwd(q, k, v, out, alibi_slopes, p_dropout, softmax_scale, is_causal, left, right, softcap, return_softmax,
            generator=None):
    shape = q.shape[0], q.shape[1], k.shape[1]
    return _fa2_forward("flash_attn_2_cuda.fwd", q, k, v, out, alibi_slopes, p_dropout, (left, right), is_causal,
                        return_softmax, shape)


def fa2_varlen_fwd(q, k, v, out, cu_seqlens_q, cu_seqlens_k, seqused_k, leftpad_k, block_table, alibi_slopes,
                   max_seqlen_q, max_seqlen_k, p_dropout, softmax_scale, zero_tensors, is_causal, left, right, softcap,
                   return_softmax, generator=None, num_splits=0):
    shape = cu_seqlens_q.numel() - 1, max_seqlen_q, max_seqlen_k
    return _fa2_forward("flash_attn_2_cuda.varlen_fwd", q, k, v, out, alibi_slopes, p_dropout, (left, right), is_causal,
                        return_softmax, shape, (cu_seqlens_q, cu_seqlens_k))


def _fa2_backward(name, dout, q, k, v, out, lse, dq, dk, dv, window, causal, deterministic, shape, ends=None):
    """Runs mha_bwd or mha_varlen_bwd."""
    _check_fa2(q, k, v)
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
    if k.shape[-2] != heads:  # one gradient for each query head; summed afterwards
        expanded = [torch.empty(*k.shape[:-2], heads, width, dtype=q.dtype, device=q.device) for _ in range(2)]
    work = flops(q, k, v, BACKWARD, causal, window, ends)
    reads = [dout, q, k, v, out, lse, *expanded, *(ends or ())]
    launches.launch(name, reads, [dq, dk, dv, delta, dq_sum, *expanded], work, launches.TABLE)
    return [dq, dk, dv, delta]


def fa2_bwd(dout, q, k, v, out, softmax_lse, dq, dk, dv, alibi_slopes, p_dropout, softmax_scale, is_causal, left, right,
            softcap, deterministic, generator=None, rng_state=None):
    return _fa2_backward("flash_attn_2_cuda.bwd", dout, q, k, v, out, softmax_lse, dq, dk, dv, (left, right), is_causal,
                         deterministic, q.shape[:2])


def fa2_varlen_bwd(dout, q, k, v, out, softmax_lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, alibi_slopes, max_seqlen_q,
                   max_seqlen_k, p_dropout, softmax_scale, zero_tensors, is_causal, left, right, softcap, deterministic,
                   generator=None, rng_state=None):
    shape = cu_seqlens_q.numel() - 1, max_seqlen_q
    return _fa2_backward("flash_attn_2_cuda.varlen_bwd", dout, q, k, v, out, softmax_lse, dq, dk, dv, (left, right),
                         is_causal, deterministic, shape, (cu_seqlens_q, cu_seqlens_k))


MODULES = {"flash_attn_2_cuda": {"fwd": fa2_fwd, "varlen_fwd": fa2_varlen_fwd, "bwd": fa2_bwd,
                                 "varlen_bwd": fa2_varlen_bwd}}


_FA3_WIDTHS = (64, 96, 128, 192, 256)  # widths for which kernels are compiled


def _ends(cu_seqlens_q, cu_seqlens_k):
    if (cu_seqlens_q is None) != (cu_seqlens_k is None):
        raise HeadroomError("flash_attn_3 with sequences of different length only for queries or only for keys is "
                            "not in Headroom's table")
    return None if cu_seqlens_q is None else (cu_seqlens_q, cu_seqlens_k)


def _fa3_batch(q, ends, max_seqlen):
    """Returns the number of sequences, the greatest length, and the number of tokens."""
    if ends is None:
        return q.shape[0], q.shape[1], q.shape[0] * q.shape[1]
    return ends[0].numel() - 1, max_seqlen, q.shape[0]


def fa3_fwd(q, k, v, k_new=None, v_new=None, q_v=None, out=None, cu_seqlens_q=None, cu_seqlens_k=None,
            cu_seqlens_k_new=None, seqused_q=None, seqused_k=None, max_seqlen_q=None, max_seqlen_k=None,
            page_table=None, kv_batch_idx=None, leftpad_k=None, rotary_cos=None, rotary_sin=None,
            seqlens_rotary=None, q_descale=None, k_descale=None, v_descale=None, softmax_scale=None, is_causal=False,
            left=-1, right=-1, attention_chunk=0, softcap=0.0, is_rotary_interleaved=False, scheduler_metadata=None,
            num_splits=0, pack_gqa=None, sm_margin=0):
    """Runs mha_fwd as in training: one split, no cache of keys."""
    if num_splits > 1 or k_new is not None or page_table is not None:
        raise HeadroomError("flash_attn_3.fwd with a cache of keys or several splits is not in Headroom's table")
    check_dtypes(q, k, v)
    ends = _ends(cu_seqlens_q, cu_seqlens_k)
    batch, length, tokens = _fa3_batch(q, ends, max_seqlen_q)
    heads = q.shape[-2]
    dtype = torch.bfloat16 if q.dtype == torch.float8_e4m3fn else q.dtype
    if out is None:
        out = torch.empty(*q.shape[:-1], v.shape[-1], dtype=dtype, device=q.device)
    lse = floats(q, *((batch, heads, length) if ends is None else (heads, tokens)))
    local = left >= 0 or right >= 0
    newest = torch.cuda.get_device_capability()[0] >= 9
    semaphore = (is_causal or local or ends is not None) if newest else is_causal and ends is None
    scratch = []
    if semaphore or ends is not None:
        # Two vectors are for sequences of different lengths, another to sort the sequences, another to order the heads.
        vectors = 2 * (ends is not None) + (not local) + (is_causal or local)
        scratch = [torch.empty(semaphore + vectors * rounded(batch, 4), dtype=torch.int32, device=q.device)]
    reads = [q, k, v, q_descale, k_descale, v_descale, *(ends or ())]
    work = flops(q, k, v, FORWARD, is_causal, (left, right), ends)
    launches.launch("flash_attn_3.fwd", reads, [out, lse, *scratch], work, launches.TABLE)
    return out, lse, None, None


def _fa3_blocks(width, causal, local, softcap):
    """Returns the numbers of query rows and key rows in a block of the backward, which depend on the card."""
    major, minor = torch.cuda.get_device_capability()
    if major >= 9:
        masked = causal or local or softcap > 0
        rows = {64: 96 if causal and softcap > 0 else 128, 128: 64 if masked else 80}.get(width, 64)
        return rows, {192: 96, 256: 80}.get(width, 128)
    if (major, minor) in ((8, 6), (8, 9)):
        return 32 if width == 256 else 64, {64: 128, 96: 128, 128: 96}.get(width, 64)
    return 128 if width == 64 else 64, {192: 80, 256: 64}.get(width, 128)


def fa3_bwd(dout, q, k, v, out, softmax_lse, dq=None, dk=None, dv=None, cu_seqlens_q=None, cu_seqlens_k=None,
            seqused_q=None, seqused_k=None, max_seqlen_q=None, max_seqlen_k=None, softmax_scale=None, is_causal=False,
            left=-1, right=-1, softcap=0.0, deterministic=False, sm_margin=0):
    """Runs mha_bwd."""
    ends = _ends(cu_seqlens_q, cu_seqlens_k)
    batch, length, tokens = _fa3_batch(q, ends, max_seqlen_q)
    _, key_length, key_tokens = _fa3_batch(k, ends and ends[::-1], max_seqlen_k)
    heads, key_heads = q.shape[-2], k.shape[-2]
    width = next(known for known in _FA3_WIDTHS if known >= max(q.shape[-1], v.shape[-1]))
    causal = is_causal or (left < 0 and right == 0)
    rows, key_rows = _fa3_blocks(width, causal, not causal and (left >= 0 or right >= 0), softcap)
    if ends is None:
        part = batch, heads, rounded(length, rows)
        key_part = batch, key_heads, rounded(key_length, key_rows)
    else:
        part = heads, rounded(tokens + batch * rows, rows)
        key_part = key_heads, rounded(key_tokens + batch * key_rows, key_rows)
    dq, dk, dv = (torch.empty_like(of) if given is None else given for given, of in ((dq, q), (dk, k), (dv, v)))
    delta, lse_log2 = floats(q, *part), floats(q, *part)
    dq_sum = floats(q, *part, width)
    key_sums = []
    if heads != key_heads:
        key_sums = [torch.zeros(*key_part, width, dtype=torch.float32, device=q.device) for _ in range(2)]
    semaphores = [torch.empty(-(-length // rows), batch, heads, dtype=torch.int32, device=q.device)]
    if heads != key_heads and deterministic:
        sizes = -(-key_length // key_rows), batch, key_heads
        semaphores += [torch.zeros(sizes, dtype=torch.int32, device=q.device) for _ in range(2)]
    reads = [dout, q, k, v, out, softmax_lse, *key_sums, *(ends or ())]
    writes = [dq, dk, dv, delta, lse_log2, dq_sum, *key_sums, *semaphores]
    launches.launch("flash_attn_3.bwd", reads, writes, flops(q, k, v, BACKWARD, is_causal, (left, right), ends),
                    launches.TABLE)
    return delta, lse_log2, dq_sum, *(key_sums or (None, None))


def register_flash_attn_3():
    """Registers ops with PyTorch, as `import flash_attn_3._C` does."""
    torch.ops.flash_attn_3.fwd, torch.ops.flash_attn_3.bwd = fa3_fwd, fa3_bwd
