# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attention of transformer_engine_torch: cuDNN's fused kernels. Source: github.com/NVIDIA/TransformerEngine,
pytorch/csrc/extensions/attention.cpp, version 2.20.2, and common/fused_attn/{fused_attn.cpp,
fused_attn_f16_arbitrary_seqlen.cu}, commit d0067d0d. Workspaces: github.com/NVIDIA/cudnn-frontend,
node/scaled_dot_product_flash_attention.h, commit 3929da26."""

import functools

import torch

from .._library import HeadroomError
from .attention import BACKWARD, FORWARD, flops
from .transformer_engine_tensors import (Backend, Bias, Format, Layout, Mask, Softmax, architecture, create, kind_of,
                                         launch, rounded)

_CAUSAL = (Mask.NVTE_CAUSAL_MASK, Mask.NVTE_PADDING_CAUSAL_MASK, Mask.NVTE_CAUSAL_BOTTOM_RIGHT_MASK,
           Mask.NVTE_PADDING_CAUSAL_BOTTOM_RIGHT_MASK)
_PADDING = (Mask.NVTE_PADDING_MASK, Mask.NVTE_PADDING_CAUSAL_MASK, Mask.NVTE_PADDING_CAUSAL_BOTTOM_RIGHT_MASK)
_ORDER = {Format.NVTE_BSHD: "bshd", Format.NVTE_SBHD: "sbhd", Format.NVTE_BHSD: "bhsd", Format.NVTE_THD: "thd"}


def cudnn_version():
    return torch.backends.cudnn.version() or 91900  # PyTorch without CUDA: that of 2.11


def _formats(layout):
    """Returns the formats of the queries and of the keys."""
    names = Layout(layout).name.removeprefix("NVTE_").removeprefix("Paged_KV_").split("_")
    plain = [name.replace("3", "").replace("2", "") for name in names]
    return Format[f"NVTE_{plain[0]}"], Format[f"NVTE_{plain[-1]}"]


def get_fused_attn_backend(parameters):
    """Chooses as with cuDNN 9.12 and later, which is the oldest that the library takes."""
    reason = _unsupported(parameters)
    return (Backend.NVTE_No_Backend if reason else Backend.NVTE_F16_arbitrary_seqlen), reason


def _unsupported(p):
    """Returns why there is no fused attention for the parameters; empty: there is."""
    card, version = architecture(), cudnn_version()
    widths, mask = (p.head_dim_qk, p.head_dim_v), Mask(p.attn_mask_type)
    window = p.window_size_left, p.window_size_right
    training = p.is_training
    if int(p.qkv_dtype) not in (5, 6):
        return "Headroom knows fused attention of float16 and bfloat16"
    if card < 80:
        return "fused attention needs a GPU of compute capability 8.0 or newer"
    if widths[0] % 8 or widths[1] % 8 or not _takes_widths(widths, card, training, version):
        return f"fused attention takes no heads of widths {widths[0]} and {widths[1]} on this GPU"
    if p.bias_type == Bias.NVTE_PRE_SCALE_BIAS or p.bias_type == Bias.NVTE_ALIBI and (
        mask not in (Mask.NVTE_CAUSAL_MASK, Mask.NVTE_CAUSAL_BOTTOM_RIGHT_MASK) or card < 90
    ):
        return "fused attention does not take this bias"
    biased = p.bias_type != Bias.NVTE_NO_BIAS
    if mask in _PADDING and (biased or p.dropout) and mask != Mask.NVTE_PADDING_CAUSAL_MASK:
        return "fused attention takes no bias or dropout with padding"
    if mask in (Mask.NVTE_CAUSAL_BOTTOM_RIGHT_MASK, Mask.NVTE_PADDING_CAUSAL_BOTTOM_RIGHT_MASK) and (
        p.max_seqlen_q > p.max_seqlen_kv
    ):
        return "fused attention takes no more queries than keys with a mask aligned to the last"
    if Format.NVTE_THD in _formats(p.qkv_layout) and (card < 90 or mask not in _PADDING):
        return "fused attention of sequences of different lengths needs a Hopper GPU and a mask of padding"
    if not (window[0] == -1 and window[1] in (-1, 0)) and (
        p.max_seqlen_q > p.max_seqlen_kv or biased or p.dropout or mask == Mask.NVTE_CAUSAL_MASK
    ):
        return "fused attention takes no such window"
    if p.softmax_type != Softmax.NVTE_VANILLA_SOFTMAX and version < 91301:
        return "fused attention takes the ordinary softmax"
    if p.return_max_logit and version < 92100:
        return "fused attention does not return the greatest logit"
    fixed = p.deterministic and (version < 91801 or p.dropout or biased)
    if card >= 100 and training and (p.dropout and biased or fixed):
        return "fused attention has no such backward on this GPU"
    return ""


def _takes_widths(widths, card, training, version):
    if max(widths) <= 128 or not training:
        return True
    if card == 90 and max(widths) <= 256:
        return widths[0] == widths[1] or min(widths) < 128 or widths == (192, 128)
    return card >= 100 and (widths == (192, 128) or widths == (256, 256) and card < 110 and version >= 92300)


def _sizes(tensor, layout_format):
    """Returns batch, heads, length, width and tokens of a tensor; None: not a dimension of the tensor."""
    found = dict(zip(_ORDER[layout_format], tensor.size()))
    return [found.get(name) for name in "bhsdt"]


def _in(layout_format, sizes):
    return [dict(zip("bhsdt", sizes))[name] for name in _ORDER[layout_format]]


def _by_batch(tensor, layout_format):
    """Returns a [batch, length, heads, width] view, or [tokens, heads, width] of sequences of different lengths."""
    return {"sbhd": lambda: tensor.transpose(0, 1), "bhsd": lambda: tensor.transpose(1, 2)}.get(
        _ORDER[layout_format], lambda: tensor)()


def _work(products, q, k, v, formats, mask, window, ends):
    views = [_by_batch(tensor, layout) for tensor, layout in zip((q, k, v), (formats[0], formats[1], formats[1]))]
    return flops(*views, products, Mask(mask) in _CAUSAL, window, ends if views[0].dim() == 3 else None)


def _bucket(count, least, step):
    """Returns the number of sequences or tokens for which cuDNN plans: a power of two, or a multiple of `step`."""
    return max(least, 1 << (count - 1).bit_length()) if count <= step else rounded(count, step)


def _lengths(batch, formats, mask):
    """Returns the bytes of lengths and offsets of sequences in a workspace."""
    ragged = [layout == Format.NVTE_THD for layout in formats]
    if any(ragged):
        batch = _bucket(batch, 32, 512)
    lengths = 2 * rounded(4 * batch, 16) if Mask(mask) in _PADDING else 0
    return lengths + (2 * sum(ragged) + ragged[0]) * rounded(8 * (batch + 1), 16)


def _backward_workspace(sizes, length, formats, bias_type, deterministic):
    """Returns the bytes of cuDNN's backward: sums of dO * O, dQ in float32 unless dP is stored, and the gradients of
    keys and values of each query's head where sequences have different lengths."""
    batch, heads, _, width, tokens = sizes[0]
    rows = _bucket(tokens, 1024, 32768) if tokens else batch * length
    accumulates = bias_type != Bias.NVTE_POST_SCALE_BIAS and not deterministic
    size = 4 * rows * heads * (1 + accumulates * width)
    if sizes[1][4] and sizes[1][1] != heads:
        size += 4 * _bucket(sizes[1][4], 1024, 32768) * heads * (width + sizes[2][3])
    return rounded(size + (rounded(4 * heads, 16) if bias_type == Bias.NVTE_ALIBI else 0), 16)


def _refuse_quantized(*quantizers):
    if any(kind_of(quantizer) for quantizer in quantizers):
        raise HeadroomError("attention of FP8 in TransformerEngine is not among the kernels that Headroom knows: "
                            "choose a recipe without fp8_dpa and fp8_mha")


def fused_attn_fwd(max_seqlen_q, max_seqlen_kv, is_training, attn_scale, p_dropout, set_zero, qkv_layout, o_format,
                   qkv_scale_inv_format, bias_type, attn_mask_type, softmax_type, window_size, bottom_right_diagonal,
                   cu_seqlens_q, cu_seqlens_kv, Q, K, V, fake_dtype, cu_seqlens_q_padded, cu_seqlens_kv_padded,
                   page_table_k, page_table_v, s_quantizer, o_quantizer, bias, softmax_offset, rng_gen,
                   rng_elts_per_thread, return_max_logit, cuda_graph):
    _refuse_quantized(s_quantizer, o_quantizer)
    formats = _formats(qkv_layout)
    batch = cu_seqlens_q.numel() - 1
    sizes = _sizes(Q, formats[0])
    heads = sizes[1]
    sizes[3] = V.size(-1)
    out = create(None, _in(o_format, sizes), fake_dtype)
    if o_format == Format.NVTE_THD:
        out.zero_()
    state = torch.empty(2, dtype=torch.int64, device="cuda")
    workspace = torch.empty(max(1, _lengths(batch, formats, attn_mask_type)), dtype=torch.uint8, device="cuda")
    ragged = formats[0] == Format.NVTE_THD and architecture() != 120
    rows = (Q.size(0), heads, 1) if ragged else (batch, heads, max_seqlen_q, 1)
    statistics = [torch.empty(rows, dtype=torch.float32, device="cuda") for _ in range(1 + return_max_logit)]
    extra = _extra(bias_type, bias, softmax_type, softmax_offset)
    ends = cu_seqlens_q, cu_seqlens_kv
    reads = [Q, K, V, *ends, cu_seqlens_q_padded, cu_seqlens_kv_padded, page_table_k, page_table_v, *extra]
    launch("fused_attn_fwd", reads, [out, *statistics, state, workspace],
           _work(FORWARD, Q, K, V, formats, attn_mask_type, window_size, ends))
    return [out, *statistics, state, *extra]


def _extra(bias_type, bias, softmax_type, softmax_offset):
    found = [bias] if bias_type not in (Bias.NVTE_NO_BIAS, Bias.NVTE_ALIBI) and bias is not None else []
    plain = softmax_type == Softmax.NVTE_VANILLA_SOFTMAX
    return found if plain or softmax_offset is None else [*found, softmax_offset]


def _gradients(layout, sizes, dtype):
    """Creates the gradients of queries, keys and values as in the layout: parts of one tensor, or tensors of their
    own."""
    name, formats = Layout(layout).name, _formats(layout)
    shapes = [_in(formats[place > 0], size) for place, size in enumerate(sizes)]
    make = functools.partial(torch.empty, dtype=dtype, device="cuda")
    count = next((count for count in (3, 2) if str(count) in name), 0)
    own = list(map(make, shapes[: 3 - count]))
    if not count:
        return own
    place = -2 if name.endswith(f"{count}HD") else -1
    whole = make([*shapes[2][:place], count, *shapes[2][place:]])
    return [*own, *whole.unbind(place - 1)]


def fused_attn_bwd(max_seqlen_q, max_seqlen_kv, attn_scale, p_dropout, set_zero, qkv_layout, o_format, do_format,
                   dqkv_layout, qkv_scale_inv_format, do_scale_inv_format, bias_type, attn_mask_type, softmax_type,
                   window_size, bottom_right_diagonal, deterministic, cu_seqlens_q, cu_seqlens_kv, Q, K, V, O, dO,
                   fake_dtype, aux_tensors, cu_seqlens_q_padded, cu_seqlens_kv_padded, s_quantizer, dp_quantizer,
                   dqkv_quantizer, cuda_graph):
    _refuse_quantized(s_quantizer, dp_quantizer, dqkv_quantizer)
    formats = _formats(qkv_layout)
    sizes = [_sizes(tensor, formats[place > 0]) for place, tensor in enumerate((Q, K, V))]
    gradients = _gradients(dqkv_layout, sizes, fake_dtype)
    for gradient, layout_format in zip(gradients, (_formats(dqkv_layout)[place > 0] for place in range(3))):
        if layout_format == Format.NVTE_THD:
            gradient.fill_(0)
    batch, heads = cu_seqlens_q.numel() - 1, sizes[0][1]
    bias_grad = offset_grad = None
    if bias_type not in (Bias.NVTE_NO_BIAS, Bias.NVTE_ALIBI):
        bias_grad = torch.empty(aux_tensors[-1].shape, dtype=fake_dtype, device="cuda")
    if softmax_type != Softmax.NVTE_VANILLA_SOFTMAX:
        offset_grad = torch.empty(1, heads, 1, 1, dtype=torch.float32, device="cuda")
    size = _backward_workspace(sizes, max_seqlen_q, formats, bias_type, deterministic)
    workspace = torch.empty(size + _lengths(batch, formats, attn_mask_type), dtype=torch.uint8, device="cuda")
    ends = cu_seqlens_q, cu_seqlens_kv
    reads = [Q, K, V, O, dO, *aux_tensors, *ends, cu_seqlens_q_padded, cu_seqlens_kv_padded]
    launch("fused_attn_bwd", reads, [*gradients, bias_grad, offset_grad, workspace],
           _work(BACKWARD, Q, K, V, formats, attn_mask_type, window_size, ends))
    return [*gradients, bias_grad, offset_grad]


def fa_prepare_fwd(qkvi):
    length, batch, heads, width = qkvi.shape
    out = qkvi.new_empty(3, batch, length, heads, width)
    launch("fa_prepare_fwd", [qkvi], [out])
    return out


def fa_prepare_bwd(q, k, v):
    batch, length, heads, width = q.shape
    out = q.new_empty(length, batch, heads, 3 * width)
    launch("fa_prepare_bwd", [q, k, v], [out])
    return out


def convert_thd_to_bshd(tensor, cu_seqlens, batch, max_seq_len):
    out = tensor.new_zeros(batch, max_seq_len, *tensor.shape[1:])
    launch("convert_thd_to_bshd", [tensor, cu_seqlens], [out])
    return out


def convert_bshd_to_thd(tensor, cu_seqlens, tokens):
    out = tensor.new_zeros(tokens, *tensor.shape[2:])
    launch("convert_bshd_to_thd", [tensor, cu_seqlens], [out])
    return out


ATTENTION = {
    function.__name__: function
    for function in (get_fused_attn_backend, fused_attn_fwd, fused_attn_bwd, fa_prepare_fwd, fa_prepare_bwd,
                     convert_thd_to_bshd, convert_bshd_to_thd)
} | {"get_cudnn_version": cudnn_version}
