# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels of transformer_engine_torch, but for attention and quantization. Source: github.com/NVIDIA/TransformerEngine,
pytorch/csrc/extensions/{gemm,activation,bias,softmax,apply_rope,dropout,misc,normalization}.cpp and multi_tensor/*.cpp,
version 2.20.2. A norm takes a kernel by the width of the rows, and as many blocks as fit a multiprocessor:
common/normalization/{common,rtc_dispatch}.cpp and {layernorm,rmsnorm}/*_kernel.cu, commit d0067d0d; registers as NVRTC
13.0 compiles the kernels for each architecture, as the library does at run time."""

import bisect
import collections
import functools
import itertools

import torch

from .libraries import l2norm, multi_tensor
from .transformer_engine_attention import ATTENTION
from .transformer_engine_tensors import (BLOCK, CURRENT, DELAYED, MXFP8, QUANTIZATION, TYPES, architecture, cast,
                                         create, finish, flat, kind_of, launch, overlap_is_refused, rounded, summed,
                                         swizzled, torch_dtype, waits_for_swizzle)


# width: columns of a row that a block computes. across: blocks of a row. rows: rows of a block. general: the kernel
# takes any number of columns.
Kernel = collections.namedtuple("Kernel", "width across rows general")


def _tuned(rows_of_four, *parts):
    """Describes kernels by width: the widths of kernels with four rows in a block, and (blocks of a row, widths)."""
    return {width: Kernel(width, 1, 4, False) for width in rows_of_four} | {
        width: Kernel(width, across, 1, False) for across, widths in parts for width in widths}


def _general(rows_of_four, one_row):
    return {width: Kernel(width, 1, rows, True) for rows, widths in ((4, rows_of_four), (1, one_row))
            for width in widths}


_GENERAL_BACKWARD = _general((128, 512, 1024), (2048, 4096))
_GENERAL_FORWARD = _general((128, 512, 1024, 2048), (8192,))
_KERNELS = {
    "layernorm forward": (
        _tuned((768, 1024, 1536, 2048, 2304), (1, (3072, 3840, 4096, 5120, 6144, 8192, 10240)),
               (2, (12288, 12800, 15360, 16384, 18432, 20480, 24576, 25600)), (4, (30720, 32768, 40960, 49152)),
               (8, (65536,))), _GENERAL_FORWARD),
    "rmsnorm forward": (_tuned((512, 768, 1024, 2048), (1, (4096, 8192))), _GENERAL_FORWARD),
    "layernorm backward": (
        _tuned((768, 1024), (1, (1536, 2048, 2304, 3072, 3840, 4096, 5120, 6144)), (2, (8192, 10240)),
               (4, (12288, 15360, 16384, 18432, 20480, 24576, 30720, 32768, 40960)), (5, (12800, 25600)),
               (8, (49152, 65536))), _GENERAL_BACKWARD),
    "rmsnorm backward": (_tuned((512, 768, 1024), (1, (2048, 4096, 8192))), _GENERAL_BACKWARD),
}
_KERNELS["rmsnorm backward add"] = _KERNELS["rmsnorm backward"]
_BACKWARDS = "layernorm backward", "rmsnorm backward", "rmsnorm backward add"

# Blocks on a multiprocessor, a digit (to base 36) for each kernel of _BACKWARDS, first the tuned kernels, by width. f:
# float32, h: float16, b: bfloat16; the first letter is the weight's, the second the input's.
_BLOCKS = {
    (80, "ff"): "3265332221223422221211111 a4242 643632 c5343 532522 c5353",
    (80, "hh"): "3265332221223422221211111 a4242 643632 a5353 543532 c5353",
    (80, "hf"): "3265332221223422221211111 c4242 ...... c5353 ...... c5343",
    (80, "bb"): "3265332221223422221211111 a4242 643632 a5353 543532 c5353",
    (80, "bf"): "3265332221223422221211111 c4242 ...... c5353 ...... c5343",
    (86, "ff"): "3265332221223422221211111 c4242 643632 c5353 532522 c5353",
    (86, "hh"): "3265332221223422221211111 c4242 643632 c5353 543532 c5353",
    (86, "hf"): "3264332221223422221211111 c4242 ...... c5353 ...... c5353",
    (86, "bb"): "3265332221223422221211111 c4242 643632 c5353 543532 c5353",
    (86, "bf"): "3264332221223422221211111 c4242 ...... c5353 ...... c5353",
    (89, "ff"): "3265332221223422221211111 c4242 643632 c5353 532522 c5353",
    (89, "hh"): "3265332221223422221211111 c4242 643632 c5353 543532 c5353",
    (89, "hf"): "3264332221223422221211111 c4242 ...... c5353 ...... c5353",
    (89, "bb"): "3265332221223422221211111 c4242 643632 c5353 543532 c5353",
    (89, "bf"): "3264332221223422221211111 c4242 ...... c5353 ...... c5353",
    (90, "ff"): "3254332221223422221211111 a4242 543532 c5343 432522 g5342",
    (90, "hh"): "3254332221223422221211111 a4242 543532 c4353 543532 c5343",
    (90, "hf"): "3254332221223422221211111 a4242 ...... a5353 ...... a4342",
    (90, "bb"): "3254332221223422221211111 a4242 643532 c4353 543532 c5343",
    (90, "bf"): "3254332221223422221211111 a4242 ...... a5353 ...... a4342",
    (100, "ff"): "3264433221223422221211111 93242 643632 c4243 532522 c4343",
    (100, "hh"): "4365443322324433222211121 93242 744632 c4253 643632 c4353",
    (100, "hf"): "3365443322324433222211121 93242 ...... a4343 ...... a4343",
    (100, "bb"): "3365433322324433222211121 93242 643632 c4253 543532 c4353",
    (100, "bf"): "3365433321324433222211121 93242 ...... a4343 ...... a4343",
}
_FORWARD_BLOCKS = 2  # most kernels of wide rows; only these have scratch memory in the forward, a few KiB


def _types(weight, input):
    letters = {torch.float32: "f", torch.float16: "h", torch.bfloat16: "b"}
    types = letters.get(weight, "f") + letters.get(input, "f")
    return types if types in ("ff", "hh", "hf", "bb", "bf") else "ff"


def kernel_of(stage, columns, weight, input):
    """Returns the kernel for rows of this many columns: a kernel tuned for the width, or a general kernel that is as
    wide."""
    tuned, general = _KERNELS[stage]
    only_equal = stage.startswith("rmsnorm") and weight != input
    if columns in tuned and not only_equal:
        return tuned[columns]
    widths = sorted(general)
    return general[widths[min(bisect.bisect_left(widths, columns), len(widths) - 1)]]


def blocks_per_processor(kernel, stage, weight, input):
    if stage not in _BACKWARDS:
        return _FORWARD_BLOCKS
    card = max(known for known, _ in _BLOCKS if known <= max(architecture(), 80))
    digits = _BLOCKS[card, _types(weight, input)].split()[2 * _BACKWARDS.index(stage) + kernel.general]
    return int(digits[sorted(_KERNELS[stage][kernel.general]).index(kernel.width)], 36)


def _workspace(stage, rows, columns, weight, input, sm_margin):
    """Creates the scratch memory of a norm: the partial sums that the blocks of a row exchange, and each block's sums
    of the weights' gradients."""
    kernel = kernel_of(stage, columns, weight, input)
    processors = torch.cuda.get_device_properties("cuda").multi_processor_count - sm_margin
    together = processors * blocks_per_processor(kernel, stage, weight, input)
    across = -(-columns // kernel.width) if kernel.general else kernel.across
    blocks = together // across
    if kernel.general:
        blocks = min(-(-rows // kernel.rows), blocks)
    size = 0
    if across > 1:
        per_block = 4 if kernel.general and "forward" in stage else 8
        size = rounded(8 * blocks, 16) + rounded(blocks * kernel.rows * across * per_block * 2, 16)
    if "backward" in stage:
        size += (2 if stage.startswith("layernorm") else 1) * rounded(4 * blocks * columns, 16)
    return torch.empty(max(size, 1), dtype=torch.uint8, device="cuda")


def _forward(name, inputs, out, quantizer, otype, sm_margin):
    """Runs layernorm_fwd or rmsnorm_fwd."""
    input = inputs[0]
    rows, columns = flat(input.shape)
    count = 2 if name == "layernorm" else 1
    statistics = [torch.empty(rows, dtype=torch.float32, device="cuda") for _ in range(count)]
    dtype, kind = torch_dtype(otype), kind_of(quantizer)
    out = create(quantizer, input.shape, dtype) if out is None else out
    direct = kind in (None, DELAYED)
    amax = [torch.zeros(1, dtype=torch.float32, device="cuda")] if kind == CURRENT else []
    made = out if direct else create(None, input.shape, dtype)
    workspace = _workspace(f"{name} forward", rows, columns, inputs[1].dtype, input.dtype, sm_margin)
    writes = [made, *statistics, *amax, workspace] + ([quantizer.amax] if kind == DELAYED else [])
    launch(f"{name}_fwd", inputs, writes)
    if not direct:
        finish(quantizer, made, out)
    return [out, *statistics] if count == 2 else [out, None, *statistics]


def layernorm_fwd(input, weight, bias, eps, ln_out, quantizer, otype, sm_margin, zero_centered_gamma):
    return _forward("layernorm", [input, weight, bias], ln_out, quantizer, otype, sm_margin)


def rmsnorm_fwd(input, weight, eps, ln_out, quantizer, otype, sm_margin, zero_centered_gamma):
    return _forward("rmsnorm", [input, weight], ln_out, quantizer, otype, sm_margin)


def _backward(name, reads, gamma, sm_margin):
    dz, x, *rest = (tensor.contiguous() for tensor in reads)
    gamma = gamma.contiguous()
    dx = torch.empty_like(x)
    gradients = [torch.empty_like(gamma) for _ in range(2 if name == "layernorm_bwd" else 1)]
    stage = f"{name.split('_')[0]} backward{' add' if name.endswith('add') else ''}"
    workspace = _workspace(stage, *flat(x.shape), gamma.dtype, x.dtype, sm_margin)
    launch(name, [dz, x, *rest, gamma], [dx, *gradients, workspace])
    return [dx, *gradients]


def layernorm_bwd(dz, x, mu, rsigma, gamma, sm_margin, zero_centered_gamma):
    return _backward("layernorm_bwd", [dz, x, mu, rsigma], gamma, sm_margin)


def rmsnorm_bwd(dz, x, rsigma, gamma, sm_margin, zero_centered_gamma):
    return _backward("rmsnorm_bwd", [dz, x, rsigma], gamma, sm_margin)


def rmsnorm_bwd_add(dz, x, add, rsigma, gamma, sm_margin, zero_centered_gamma):
    return _backward("rmsnorm_bwd_add", [dz, x, add, rsigma], gamma, sm_margin)


NORMS = {
    function.__name__: function
    for function in (layernorm_fwd, layernorm_bwd, rmsnorm_fwd, rmsnorm_bwd, rmsnorm_bwd_add)
}


def generic_gemm(A, transA, B, transB, D, quantizer, output_dtype, bias, bias_type, gelu, gelu_in, grad, workspace,
                 workspace_size, accumulate, use_split_accumulator, comm_overlap=None, comm_type=None,
                 extra_output=None, bulk_overlap=False, alpha=1.0, beta=None):
    if comm_overlap is not None:
        overlap_is_refused()
    shape = _product_shape(A, transA, B, transB)
    low = any(getattr(tensor, "_quantizer", None) is not None for tensor in (A, B))
    dtype = torch_dtype(output_dtype) if output_dtype is not None else A.dtype
    out = create(quantizer, shape, dtype) if D is None else D
    product, fused = out, quantizer is None or low and kind_of(quantizer) == DELAYED
    if not fused:
        product = create(None, shape, dtype)
    bias_grad = torch.empty(B.size()[-1], dtype=product.dtype, device="cuda") if bias is not None and grad else None
    bias = bias.contiguous() if bias is not None and not grad else None
    before_gelu = gelu_in if grad else None
    if gelu and not grad:
        before_gelu = torch.empty(shape, dtype=torch_dtype(bias_type) if low else product.dtype, device="cuda")
    scales = _scales(A, transA), _scales(B, not transB)
    writes = [product, bias_grad, workspace, before_gelu if gelu and not grad else None]
    reads = [*_operand(A, transA), *_operand(B, not transB), bias, *scales,
             product if accumulate else None, before_gelu if gelu and grad else None]
    launch("generic_gemm", reads, writes, _product_flops(A, transA, B, transB))
    if not fused:
        cast(quantizer, product, out)
    return [out, bias_grad, None if grad or not gelu else before_gelu, extra_output]


def _product_shape(A, transA, B, transB):
    rows, columns = flat(A.size())
    return ([B.size()[-1]] if transB else list(B.size())[:-1]) + [rows if transA else columns]


def _product_flops(A, transA, B, transB):
    rows, columns = flat(A.size())
    return 2 * rows * columns * flat(B.size())[1 if transB else 0]


def _operand(tensor, rowwise):
    """Returns the tensors that a product reads of a tensor. A quantized tensor has float8 data by rows or by columns,
    and scales."""
    if getattr(tensor, "_quantizer", None) is None:
        return [tensor]
    names = ("_data", "_rowwise_data") if rowwise else ("_transpose", "_columnwise_data", "_data")
    data = next(data for data in (getattr(tensor, name, None) for name in names) if data is not None)
    scale = getattr(tensor, "_rowwise_scale_inv" if rowwise else "_columnwise_scale_inv", None)
    return [data.view(torch.float8_e4m3fn), getattr(tensor, "_scale_inv", scale)]


def te_general_grouped_gemm(A, transA, B, transB, D, D_type, m_splits, bias, bias_type, single_output, pre_gelu_out,
                            grad, workspace, workspace_size, accumulate, use_split_accumulator, math_sm_count):
    pairs = list(zip(A, B))
    outs = D or [create(None, _product_shape(a, transA, b, transB), D_type) for a, b in pairs]
    scales = _joint_scales(A, transA), _joint_scales(B, not transB)
    operands = [_operand(a, transA) + _operand(b, not transB) for a, b in pairs]
    reads = [*itertools.chain(*operands), *scales, *([] if grad else bias), *(outs if accumulate else [])]
    writes = [*outs, *workspace, *pre_gelu_out, *(bias if grad else [])]
    launch("te_general_grouped_gemm", reads, writes, sum(_product_flops(a, transA, b, transB) for a, b in pairs))
    return bias


def _joint_scales(tensors, rowwise):
    """Creates the scales of several tensors in the form that cuBLAS takes: scales of MXFP8 in one buffer."""
    name = "_rowwise_scale_inv" if rowwise else "_columnwise_scale_inv"
    waiting = [getattr(tensor, name) for tensor in tensors if waits_for_swizzle(tensor)]
    if not waiting:
        return None
    size = sum(rounded(scale.numel(), 16) for scale in waiting[:-1]) + waiting[-1].numel()
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def _scales(tensor, rowwise):
    """Creates the scales of blocks in the form that cuBLAS takes."""
    kind = kind_of(getattr(tensor, "_quantizer", None))
    if kind == BLOCK and architecture() >= 100:  # as MXFP8
        rows, columns = flat(tensor.size()) if rowwise else flat(tensor.size())[::-1]
        return torch.empty(rounded(rows, 128), 4 * -(-columns // 128), dtype=torch.uint8, device="cuda")
    return swizzled(tensor, rowwise)


def _computed(name, quantizer, shape, reads, fuses=(DELAYED, MXFP8)):
    """Creates a quantized result. The kernel itself quantizes if the quantizer's kind is in `fuses`; otherwise another
    kernel does, from a temporary tensor."""
    out = create(quantizer, shape, reads[0].dtype)
    kind = kind_of(quantizer)
    if kind is None or kind in fuses:
        launch(name, reads, [out] + ([quantizer.amax] if kind == DELAYED else []))
        return out
    _temporary(name, quantizer, shape, reads, out)
    return out


def _temporary(name, quantizer, shape, reads, out):
    amax = [torch.zeros(1, dtype=torch.float32, device="cuda")] if kind_of(quantizer) == CURRENT else []
    temporary = create(None, shape, reads[0].dtype)
    launch(name, reads, [temporary, *amax])
    finish(quantizer, temporary, out)
    return temporary


def _activation(name, gated, input, quantizer, *options, **named):
    input = input.contiguous()
    shape = list(input.shape)
    shape[-1] //= 1 + gated
    return _computed(name, quantizer, shape, [input])


def _activation_backward(name, grad, fwd_input, quantizer, *options, **named):
    return _computed(name, quantizer, fwd_input.shape, [fwd_input.contiguous(), grad.contiguous()])


def _activation_and_bias_backward(name, grad, fwd_input, quantizer):
    grad, input = grad.contiguous(), fwd_input.contiguous()
    kind = kind_of(quantizer)
    out = create(quantizer, input.shape, grad.dtype)
    bias = torch.empty(input.shape[-1], dtype=grad.dtype, device="cuda")
    if kind in (DELAYED, MXFP8):
        summed(f"dbias_{name}", quantizer, grad, out, bias, input)
    else:
        temporary = _temporary(name, quantizer, input.shape, [grad, input], out)
        torch.sum(temporary.reshape(-1, input.shape[-1]), (0,), out=bias)
    return [bias, out]


_PLAIN = "gelu qgelu relu srelu silu"
_GATED = "glu geglu qgeglu reglu sreglu swiglu situglu clamped_swiglu"


def _backward_of(name):
    return name.replace("clamped_", "clamped_d") if name.startswith("clamped_") else f"d{name}"


_ACTIVATIONS = {}
for _names, _gated in ((_PLAIN, False), (_GATED, True)):
    for _name in _names.split():
        _ACTIVATIONS[_name] = functools.partial(_activation, _name, _gated)
        _back = _backward_of(_name)
        _ACTIVATIONS[_back] = functools.partial(_activation_backward, _back)
for _name in _PLAIN.split():
    _ACTIVATIONS[f"dbias_d{_name}"] = functools.partial(_activation_and_bias_backward, f"d{_name}")


def _like_first(name, *arguments):
    """Runs a kernel with a result of the shape of the first argument."""
    tensors = [argument.contiguous() for argument in arguments if isinstance(argument, torch.Tensor)]
    out = torch.empty(tensors[0].shape, dtype=tensors[0].dtype, device=tensors[0].device)
    launch(name, tensors, [out])
    return out


_SOFTMAX = {
    name: functools.partial(_like_first, name)
    for kind in ("scaled", "scaled_masked", "scaled_upper_triang_masked", "scaled_aligned_causal_masked")
    for name in (f"{kind}_softmax_forward", f"{kind}_softmax_backward")
}


def fused_rope(name, input, freqs, start_positions, *options):
    out = torch.empty(input.shape, dtype=input.dtype, device=input.device)
    reads = [input, freqs, start_positions, *(option for option in options if isinstance(option, torch.Tensor))]
    launch(name, reads, [out])
    return out


def fused_qkv_rope_forward(qkv, q_freqs, k_freqs, start_positions, widths, *options):
    first, second, heads, _ = qkv.shape
    shapes = (heads * widths[0] // widths[1], widths[1]), (heads, widths[1]), (heads, widths[2])
    results = tuple(qkv.new_empty(first, second, *shape) for shape in shapes)
    launch("fused_qkv_rope_forward", [qkv, q_freqs, k_freqs, start_positions], results)
    return results


def fused_qkv_rope_backward(q_grad, k_grad, v_grad, q_freqs, k_freqs, widths, *options):
    heads = (q_grad.shape[2] + k_grad.shape[2] + v_grad.shape[2]) * q_grad.shape[3] // sum(widths)
    out = q_grad.new_empty(*q_grad.shape[:2], heads, sum(widths))
    launch("fused_qkv_rope_backward", [q_grad, k_grad, v_grad, q_freqs, k_freqs], [out])
    return out


def dropout_fwd(input, dropout_probability, out=None):
    out = torch.empty(input.size(), dtype=input.dtype, device="cuda") if out is None else out
    mask = torch.empty(out.numel() // 8, dtype=torch.uint8, device="cuda")
    state = torch.empty(2, dtype=torch.int64, device="cuda")
    launch("dropout_fwd", [input], [out, mask, state])
    return [out, mask]


def dropout_bwd(grad_output, mask, dropout_probability, grad_input=None):
    grad_input = torch.empty_like(grad_output) if grad_input is None else grad_input
    launch("dropout_bwd", [grad_output, mask], [grad_input])
    return grad_input


def _l2norm(chunk_size, noop_flag, tensor_lists, per_tensor=None):
    return l2norm("transformer_engine_torch.multi_tensor_l2norm", chunk_size, noop_flag, tensor_lists, per_tensor)


def _unscale_l2norm(chunk_size, noop_flag, tensor_lists, inv_scale, per_tensor=None):
    name = "transformer_engine_torch.multi_tensor_unscale_l2norm"
    return l2norm(name, chunk_size, noop_flag, [[*tensor_lists[0], inv_scale]], per_tensor)


_WRITTEN = ("scale scale_tensor adam adam_param_remainder adam_fp8 adam_capturable adam_capturable_master sgd "
            "compute_scale_and_scale_inv")


def _compute_scale_inv_e8m0(chunk_size, nothing, tensor_lists):
    launch("multi_tensor_compute_scale_inv_e8m0", tensor_lists[0], tensor_lists[1])


_MULTI_TENSOR = {
    name: functools.partial(multi_tensor, f"transformer_engine_torch.{name}", 1)
    for name in (f"multi_tensor_{name}" for name in _WRITTEN.split())
}
_MULTI_TENSOR |= {"multi_tensor_l2norm": _l2norm, "multi_tensor_unscale_l2norm": _unscale_l2norm,
                  "multi_tensor_compute_scale_inv_e8m0": _compute_scale_inv_e8m0}


def _cublas_version():
    """Returns the version of the CUDA release that PyTorch was built for, which cuBLASLt's follows."""
    major, _, minor = (torch.version.cuda or "13.0").partition(".")
    return int(major) * 10000 + int(minor) * 100


_QUERIES = {
    "get_cublasLt_version": _cublas_version,
    "get_num_cublas_streams": lambda: 4,
    "get_stream_priority_range": lambda device_id=-1: (0, -5),
    "device_supports_multicast": lambda device_id=-1: False,
    "ubuf_built_with_mpi": lambda: False,
    "nvte_built_with_cublasmp": lambda: False,
}

MODULES = {
    "transformer_engine_torch": {
        **TYPES, **QUANTIZATION, **NORMS, **ATTENTION, **_ACTIVATIONS, **_SOFTMAX, **_MULTI_TENSOR, **_QUERIES,
        "generic_gemm": generic_gemm,
        "te_general_grouped_gemm": te_general_grouped_gemm, "dropout_fwd": dropout_fwd, "dropout_bwd": dropout_bwd,
        "fused_rope_forward": functools.partial(fused_rope, "fused_rope_forward"),
        "fused_rope_backward": functools.partial(fused_rope, "fused_rope_backward"),
        "fused_qkv_rope_forward": fused_qkv_rope_forward, "fused_qkv_rope_backward": fused_qkv_rope_backward,
    }
}  # fmt: skip
