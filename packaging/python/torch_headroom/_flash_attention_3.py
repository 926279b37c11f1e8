# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels of torch.ops.flash_attn_3, registered by `import flash_attn_3._C`. Source:
github.com/Dao-AILab/flash-attention, hopper/flash_api.cpp, commit 0251105a (3.0)."""

import torch

from . import _opaque
from ._attention_work import BACKWARD, FORWARD, flops
from ._flash_attention import check_dtypes, floats
from ._library import HeadroomError
from ._opaque import rounded

_WIDTHS = (64, 96, 128, 192, 256)  # widths for which kernels are compiled


def _ends(cu_seqlens_q, cu_seqlens_k):
    if (cu_seqlens_q is None) != (cu_seqlens_k is None):
        raise HeadroomError("flash_attn_3 with sequences of different length on one side only is not in Headroom's "
                            "table")
    return None if cu_seqlens_q is None else (cu_seqlens_q, cu_seqlens_k)


def _batch(q, ends, max_seqlen):
    """Returns the number of sequences, the greatest length, and the number of tokens."""
    if ends is None:
        return q.shape[0], q.shape[1], q.shape[0] * q.shape[1]
    return ends[0].numel() - 1, max_seqlen, q.shape[0]


def fwd(q, k, v, k_new=None, v_new=None, q_v=None, out=None, cu_seqlens_q=None, cu_seqlens_k=None,
        cu_seqlens_k_new=None, seqused_q=None, seqused_k=None, max_seqlen_q=None, max_seqlen_k=None, page_table=None,
        kv_batch_idx=None, leftpad_k=None, rotary_cos=None, rotary_sin=None, seqlens_rotary=None, q_descale=None,
        k_descale=None, v_descale=None, softmax_scale=None, is_causal=False, left=-1, right=-1, attention_chunk=0,
        softcap=0.0, is_rotary_interleaved=False, scheduler_metadata=None, num_splits=0, pack_gqa=None, sm_margin=0):
    """Runs mha_fwd as in training: one split, no cache of keys."""
    if num_splits > 1 or k_new is not None or page_table is not None:
        raise HeadroomError("flash_attn_3.fwd with a cache of keys or several splits is not in Headroom's table")
    check_dtypes(q, k, v)
    ends = _ends(cu_seqlens_q, cu_seqlens_k)
    batch, length, tokens = _batch(q, ends, max_seqlen_q)
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
        # Two vectors are for sequences of different lengths, one to sort the sequences, one to order the heads.
        vectors = 2 * (ends is not None) + (not local) + (is_causal or local)
        scratch = [torch.empty(semaphore + vectors * rounded(batch, 4), dtype=torch.int32, device=q.device)]
    reads = [q, k, v, q_descale, k_descale, v_descale, *(ends or ())]
    work = flops(q, k, v, FORWARD, is_causal, (left, right), ends)
    _opaque.launch("flash_attn_3.fwd", reads, [out, lse, *scratch], work, _opaque.TABLE)
    return out, lse, None, None


def _blocks(width, causal, local, softcap):
    """Returns the numbers of query rows and key rows in a block of the backward, which depend on the card."""
    major, minor = torch.cuda.get_device_capability()
    if major >= 9:
        masked = causal or local or softcap > 0
        rows = {64: 96 if causal and softcap > 0 else 128, 128: 64 if masked else 80}.get(width, 64)
        return rows, {192: 96, 256: 80}.get(width, 128)
    if (major, minor) in ((8, 6), (8, 9)):
        return 32 if width == 256 else 64, {64: 128, 96: 128, 128: 96}.get(width, 64)
    return 128 if width == 64 else 64, {192: 80, 256: 64}.get(width, 128)


def bwd(dout, q, k, v, out, softmax_lse, dq=None, dk=None, dv=None, cu_seqlens_q=None, cu_seqlens_k=None,
        seqused_q=None, seqused_k=None, max_seqlen_q=None, max_seqlen_k=None, softmax_scale=None, is_causal=False,
        left=-1, right=-1, softcap=0.0, deterministic=False, sm_margin=0):
    """Runs mha_bwd."""
    ends = _ends(cu_seqlens_q, cu_seqlens_k)
    batch, length, tokens = _batch(q, ends, max_seqlen_q)
    _, key_length, key_tokens = _batch(k, ends and ends[::-1], max_seqlen_k)
    heads, key_heads = q.shape[-2], k.shape[-2]
    width = next(known for known in _WIDTHS if known >= max(q.shape[-1], v.shape[-1]))
    causal = is_causal or (left < 0 and right == 0)
    rows, key_rows = _blocks(width, causal, not causal and (left >= 0 or right >= 0), softcap)
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
    _opaque.launch("flash_attn_3.bwd", reads, writes, flops(q, k, v, BACKWARD, is_causal, (left, right), ends),
                   _opaque.TABLE)
    return delta, lse_log2, dq_sum, *(key_sums or (None, None))


# The module registers ops with PyTorch; it has no functions itself.
torch.ops.flash_attn_3.fwd, torch.ops.flash_attn_3.bwd = fwd, bwd
MODULES = {"flash_attn_3._C": {}}
