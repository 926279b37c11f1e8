# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tensors that transformer_engine_torch makes for quantizers, the kernels that quantize, and the enumerations and
classes of the module. Source: github.com/NVIDIA/TransformerEngine, pytorch/csrc/quantizer.cpp, pytorch/csrc/common.h
and pytorch/csrc/extensions/{cast,bias,transpose,recipe,swizzle}.cpp, transformer_engine/common/util/pybind_helper.h and
common/include/transformer_engine/{transformer_engine,fused_attn,comm_gemm_overlap}.h, version 2.20.2."""

import enum
import functools
import importlib
import math

import torch

from .._library import HeadroomError
from . import launches
from .launches import rounded


def _numbered(name, members, first=0):
    return enum.IntEnum(name, members.split(), start=first, module="transformer_engine_torch")


def _prefixed(name, members, first=0):
    return _numbered(name, " ".join(f"NVTE_{member}" for member in members.split()), first)


DType = enum.IntEnum(
    "DType",
    {"kByte": 0, "kInt32": 2, "kFloat32": 4, "kFloat16": 5, "kBFloat16": 6, "kFloat8E4M3": 7, "kFloat8E5M2": 8,
     "kFloat4E2M1": 10},
    module="transformer_engine_torch",
)
Layout = _prefixed("NVTE_QKV_Layout", """
    SB3HD SBH3D SBHD_SB2HD SBHD_SBH2D SBHD_SBHD_SBHD BS3HD BSH3D BSHD_BS2HD BSHD_BSH2D BSHD_BSHD_BSHD T3HD TH3D
    THD_T2HD THD_TH2D THD_THD_THD SBHD_BSHD_BSHD BSHD_SBHD_SBHD THD_BSHD_BSHD THD_SBHD_SBHD Paged_KV_BSHD_BSHD_BSHD
    Paged_KV_BSHD_SBHD_SBHD Paged_KV_SBHD_BSHD_BSHD Paged_KV_SBHD_SBHD_SBHD Paged_KV_THD_BSHD_BSHD
    Paged_KV_THD_SBHD_SBHD BHSD_BHSD_BHSD QKV_Layout_NOT_SET""")
Format = _prefixed("NVTE_QKV_Format",
                   "SBHD BSHD THD BSHD_2SBHD SBHD_2BSHD THD_2BSHD THD_2SBHD BHSD QKV_Format_NOT_SET")
Bias = _prefixed("NVTE_Bias_Type", "NO_BIAS PRE_SCALE_BIAS POST_SCALE_BIAS ALIBI")
Mask = _prefixed("NVTE_Mask_Type", "NO_MASK PADDING_MASK CAUSAL_MASK PADDING_CAUSAL_MASK CAUSAL_BOTTOM_RIGHT_MASK "
                                   "PADDING_CAUSAL_BOTTOM_RIGHT_MASK")
Softmax = _prefixed("NVTE_Softmax_Type", "VANILLA_SOFTMAX OFF_BY_ONE_SOFTMAX LEARNABLE_SOFTMAX")
Backend = enum.IntEnum("NVTE_Fused_Attn_Backend",
                       {"NVTE_No_Backend": -1, "NVTE_F16_arbitrary_seqlen": 1, "NVTE_FP8": 2},
                       module="transformer_engine_torch")


class FP8TensorMeta:
    """Scales and histories of amax, which Python code sets."""

    def __init__(self):
        self.scale = self.scale_inv = self.amax_history = None


def overlap_is_refused(*arguments, **named):
    raise HeadroomError("TransformerEngine overlaps communication with matrix products in buffers that Headroom "
                        "does not know: record without ub_overlap_… and initialize_ub()")


def _refused(name):
    return type(name, (), {"__init__": overlap_is_refused, "__module__": "transformer_engine_torch"})


TYPES = {
    kind.__name__: kind
    for kind in (
        DType, Layout, Format, Bias, Mask, Softmax, Backend, FP8TensorMeta,
        enum.IntEnum("NVTEScalingMode",
                     {"NVTE_DELAYED_TENSOR_SCALING": 0, "NVTE_MXFP8_1D_SCALING": 1, "NVTE_BLOCK_SCALING_1D": 2,
                      "NVTE_BLOCK_SCALING_2D": 3, "NVTE_NVFP4_1D_SCALING": 4, "NVTE_INVALID_SCALING": 100}),
        _numbered("Float8BlockScaleTensorFormat", "GEMM_READY COMPACT INVALID"),
        _numbered("CommOverlapType", "RS AG"),
        _numbered("CommOverlapAlgo", "BULK_OVERLAP_AG BULK_OVERLAP_RS SPLIT_PIPELINED_AG_P2P SPLIT_PIPELINED_RS "
                                     "SPLIT_PIPELINED_RS_P2P ATOMIC_GEMM_RS ATOMIC_GEMM_AG_P2P ATOMIC_GEMM_RS_P2P "
                                     "EXTERNAL_BULK_OVERLAP_AG"),
        _numbered("FP8FwdTensors", "GEMM1_INPUT GEMM1_WEIGHT GEMM1_OUTPUT GEMM2_INPUT GEMM2_WEIGHT GEMM2_OUTPUT "
                                   "GEMM3_INPUT GEMM3_WEIGHT GEMM3_OUTPUT"),
        _numbered("FP8BwdTensors", "GRAD_OUTPUT1 GRAD_INPUT1 GRAD_OUTPUT2 GRAD_INPUT2 GRAD_OUTPUT3 GRAD_INPUT3"),
        _numbered("NVTERoutingMapFormat", "BYTEMAP BITMAP_U8"),
        _numbered("NVTEQBHistogramMode", "TWO_KERNEL FUSED_ATOMIC"),
        *map(_refused, ("CommOverlapHelper", "CommOverlapCore", "CommOverlapBase", "CommOverlapP2PBase", "CommOverlap",
                        "CommOverlapP2P")),
    )
} | {"bulk_overlap_ag_with_external_gemm": overlap_is_refused}  # fmt: skip


_DTYPES = {DType.kByte: torch.uint8, DType.kInt32: torch.int32, DType.kFloat32: torch.float32,
           DType.kFloat16: torch.float16, DType.kBFloat16: torch.bfloat16}

DELAYED, CURRENT = "Float8Quantizer", "Float8CurrentScalingQuantizer"
MXFP8, BLOCK = "MXFP8Quantizer", "Float8BlockQuantizer"
_TENSORS = {DELAYED: ("float8_tensor", "Float8Tensor"), CURRENT: ("float8_tensor", "Float8Tensor"),
            MXFP8: ("mxfp8_tensor", "MXFP8Tensor"), BLOCK: ("float8_blockwise_tensor", "Float8BlockwiseQTensor")}


def torch_dtype(dtype):
    """Returns PyTorch's dtype for a dtype of TransformerEngine."""
    return dtype if isinstance(dtype, torch.dtype) else _DTYPES[DType(int(dtype))]


def kind_of(quantizer):
    """Returns the name of the quantizer's class; None without one."""
    name = None if quantizer is None else type(quantizer).__name__
    if name is not None and name not in _TENSORS:
        raise HeadroomError(f"TransformerEngine's {name} is not among what Headroom knows: choose the recipe "
                            "DelayedScaling, Float8CurrentScaling, Float8BlockScaling or MXFP8BlockScaling, or "
                            "bfloat16")
    return name


def parts(tensors):
    """Returns the plain tensors in a list of plain tensors, quantized tensors and None."""
    found = []
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and "_quantizer" not in vars(tensor):
            found.append(tensor)
        elif tensor is not None:
            found += [part for part in vars(tensor).values() if type(part) is torch.Tensor]
    return found


def launch(name, reads, writes, flops=0):
    launches.launch(f"transformer_engine_torch.{name}", parts(reads), parts(writes), flops, launches.TABLE)


def flat(shape):
    """Returns the rows and columns of a tensor that the kernels treat as a matrix."""
    return (math.prod(shape[:-1]), shape[-1]) if len(shape) else (1, 1)


def architecture():
    major, minor = torch.cuda.get_device_capability()
    return 10 * major + minor


def _multiplies_any_layout():
    """Returns whether matrix products of FP8 need no transposed copy (nvte_is_non_tn_fp8_gemm_supported)."""
    return 100 <= architecture() < 120 or architecture() >= 130


def _transposed(shape):
    return [shape[-1], *shape[:-1]] if len(shape) else []


def create(quantizer, shape, dtype, device="cuda", pin_memory=False):
    """Creates an empty tensor as TransformerEngine's quantizers do."""
    empty = functools.partial(torch.empty, device=device, pin_memory=pin_memory)
    kind = kind_of(quantizer)
    shape, dtype = list(shape), torch_dtype(dtype)
    if kind is None:
        return empty(shape, dtype=dtype)
    if kind == DELAYED:
        data = {"fp8_scale_inv": empty(1, dtype=torch.float32), **_float8(quantizer, shape, empty)}
    elif kind == CURRENT:
        data = {**_float8(quantizer, shape, empty), "fp8_scale_inv": empty(1, dtype=torch.float32)}
    else:
        data = _blocks(quantizer, kind, shape, empty)
    return _wrapped(quantizer, kind, shape, dtype, device, data)


def _float8(quantizer, shape, empty):
    anywhere = _multiplies_any_layout()
    return {
        "data": empty(shape, dtype=torch.uint8) if quantizer.rowwise_usage or anywhere else None,
        "data_transpose": (empty(_transposed(shape), dtype=torch.uint8)
                           if quantizer.columnwise_usage and not anywhere else None),
    }


def _blocks(quantizer, kind, shape, empty):
    data = {}
    for name, is_used in (("rowwise", quantizer.rowwise_usage), ("columnwise", quantizer.columnwise_usage)):
        columns = name == "columnwise"
        sizes = _transposed(shape) if columns and kind == BLOCK else shape
        scales = scale_shape(quantizer, shape, columns)
        scale_dtype = torch.uint8 if kind == MXFP8 else torch.float32
        data[f"{name}_data"] = empty(sizes, dtype=torch.uint8) if is_used else None
        data[f"{name}_scale_inv"] = empty(scales, dtype=scale_dtype) if is_used else None
    if kind == MXFP8:
        data["with_gemm_swizzled_scales"] = quantizer.optimize_for_gemm
    else:
        data["is_2D_scaled"] = quantizer.block_scaling_dim == 2
    return data


def scale_shape(quantizer, shape, columnwise):
    """Returns the shape of the scales of the rows or columns (get_scale_shape)."""
    rows, columns = flat(shape)
    if kind_of(quantizer) == MXFP8:
        if rows % 32 or columns % 32:
            raise RuntimeError(f"MXFP8 requires tensor dims that are divisible by 32 (got shape={tuple(shape)})")
        sizes = (rows // 32, 4), (columns, 128)
        return [rounded(*size) for size in (sizes if columnwise else ((rows, 128), (columns // 32, 4)))]
    if quantizer.block_scaling_dim == 2:
        outer, inner = (columns, rows) if columnwise else (rows, columns)
        return [-(-outer // 128), rounded(-(-inner // 128), 4)]
    outer, inner = (rows, columns) if columnwise else (columns, rows)
    return [-(-outer // 128), rounded(inner, 4)]


def _wrapped(quantizer, kind, shape, dtype, device, data):
    """Makes TransformerEngine's tensor of the data; for an internal quantizer the plain storage object."""
    module, name = _TENSORS[kind]
    path = "transformer_engine.pytorch.tensor."
    numbers = importlib.import_module("transformer_engine.pytorch").DType
    named = {**data, "fp8_dtype": numbers(int(quantizer.dtype)), "quantizer": quantizer}
    if quantizer.internal:
        storage = importlib.import_module(f"{path}storage.{module}_storage")
        return getattr(storage, f"{name}Storage")(**named, fake_dtype=dtype)
    strides = [math.prod(shape[dimension + 1 :]) for dimension in range(len(shape))]
    made = getattr(importlib.import_module(path + module), name)
    return made(shape=shape, stride=strides, dtype=dtype, device=torch.device(device), **named)


def _updated(quantizer, out):
    """Gives an existing tensor the buffers that the quantizer asks for (convert_and_update_tensor)."""
    kind = kind_of(quantizer)
    if kind in (DELAYED, CURRENT):
        names = {"_data": "data", "_transpose": "data_transpose"}
        make = functools.partial(_float8, quantizer)
    else:
        names = {f"_{side}_{what}": f"{side}_{what}" for side in ("rowwise", "columnwise")
                 for what in ("data", "scale_inv")}
        make = functools.partial(_blocks, quantizer, kind)
    held = {ours: getattr(out, theirs) for theirs, ours in names.items()}
    needed = make(list(out.size()), lambda shape, dtype: (shape, dtype))
    for theirs, ours in names.items():
        if (needed[ours] is None) != (held[ours] is None):
            sizes = needed[ours]
            setattr(out, theirs, sizes and torch.empty(sizes[0], dtype=sizes[1], device="cuda"))
    if kind in (DELAYED, CURRENT):
        out._transpose_invalid = needed["data_transpose"] is None
    elif kind == MXFP8:
        out._with_gemm_swizzled_scales = quantizer.optimize_for_gemm
    return out


def cast(quantizer, tensor, out, noop=None):
    """Quantizes into an existing tensor. The amax of a current scale is computed first."""
    reads, writes = [tensor, noop], [out]
    if kind_of(quantizer) == DELAYED:
        reads.append(quantizer.scale)
        writes.append(quantizer.amax)
    elif kind_of(quantizer) == CURRENT:
        numbers = torch.empty(2, dtype=torch.float32, device=tensor.device)
        launch("compute_amax", [tensor], [numbers])
        writes.append(numbers)
    launch("quantize", reads, writes)


def finish(quantizer, temporary, out):
    """Quantizes a tensor with an amax that the tensor's kernel has computed."""
    if kind_of(quantizer) == CURRENT:
        scale = torch.empty(1, dtype=torch.float32, device=temporary.device)
        launch("quantize", [temporary], [out, scale])
    else:
        cast(quantizer, temporary, out)


def quantize(tensor, quantizer, output=None, noop=None):
    tensor = tensor.contiguous()
    out = create(quantizer, tensor.shape, tensor.dtype) if output is None else _updated(quantizer, output)
    cast(quantizer, tensor, out, noop)
    return out


def dequantize(input, otype):
    out = create(None, input.size(), otype)
    launch("dequantize", [input], [out])
    return out


def create_empty_quantized_tensor(quantizer, shape, dtype, device, pin_memory):
    return create(quantizer, shape, dtype, device, pin_memory)


def multi_tensor_quantize(tensor_list, quantizer_list):
    return [quantize(tensor, quantizer) for tensor, quantizer in zip(tensor_list, quantizer_list)]


def split_quantize(tensor, split_sections, quantizer_list, disable_bulk_allocation=False):
    kinds = set(map(kind_of, quantizer_list))
    if not disable_bulk_allocation and (kinds == {MXFP8} or kinds == {BLOCK}):
        raise HeadroomError("transformer_engine_torch.split_quantize with block scales is not among the kernels "
                            "that Headroom knows: choose the recipe DelayedScaling "
                            "or Float8CurrentScaling, or bfloat16")
    return multi_tensor_quantize(torch.split(tensor.contiguous(), split_sections), quantizer_list)


def _tile_rows(rows, columns, itemsize, fused):
    """Returns the rows of a tile of the kernel that casts, transposes and sums (KernelConfig): that of the best
    estimated cost."""
    processors = torch.cuda.get_device_properties("cuda").multi_processor_count
    best = None
    for load, store in ((8, 8), (4, 8), (8, 4), (4, 4), (2, 8), (8, 2), (2, 4), (4, 2), (2, 2), (1, 8), (8, 1), (1, 4),
                        (4, 1), (1, 2), (2, 1), (1, 1)):
        width, height = load * 32 // itemsize, store * 32
        if load % itemsize or (fused and max(load, store) > 4) or columns % width or rows % height:
            continue
        active = min(-(-columns // width * (rows // height) * 8 // 16), processors)
        reads = [min(128, width * itemsize) // itemsize] * (1 + fused)
        cost = (sum(1 / size for size in (*reads, min(128, width), min(128, height)))) / active
        if best is None or cost < best[0]:
            best = cost, height
    return best[1] if best else (128 if fused else 256)


def summed(name, quantizer, grad, out, bias, *inputs):
    """Launches a kernel that quantizes a gradient and sums the rows into the gradient of a bias, over partial sums."""
    rows, columns = flat(grad.shape)
    fused = bool(inputs)
    if kind_of(quantizer) == MXFP8:
        height = 64 if fused else 128
    elif out._transpose is not None:
        height = _tile_rows(rows, columns, grad.element_size(), fused)
    else:
        height = 128
    sums = torch.empty(-(-rows // height), columns, dtype=torch.float32, device=grad.device)
    amax = [quantizer.amax] if kind_of(quantizer) == DELAYED else []
    launch(name, [grad, *inputs], [out, bias, sums, *amax])


def bgrad_quantize(input, quantizer):
    grad = input.contiguous()
    kind = kind_of(quantizer)
    bias = torch.empty(grad.shape[-1], dtype=grad.dtype, device=grad.device)
    out = grad if kind is None else create(quantizer, grad.shape, grad.dtype)
    both = kind == DELAYED and (architecture() >= 100 or quantizer.rowwise_usage and quantizer.columnwise_usage)
    if both or kind == MXFP8:
        summed("bgrad_quantize", quantizer, grad, out, bias)
    else:
        torch.sum(grad.reshape(-1, grad.shape[-1]), (0,), out=bias)
        if kind is not None:
            cast(quantizer, grad, out)
    return [bias, out]


def fp8_transpose(input, dtype, *, out=None):
    if out is None:
        out = torch.empty(_transposed(list(input.shape)), dtype=torch.uint8, device=input.device)
    launch("fp8_transpose", [input], [out])
    return out


def swap_first_dims(tensor, *, out=None):
    tensor = tensor.contiguous()
    if out is None:
        out = tensor.new_empty(tensor.shape[1], tensor.shape[0], *tensor.shape[2:])
    launch("swap_first_dims", [tensor], [out])
    return out


def compute_amax(input, amax):
    launch("compute_amax", [input.contiguous()], [amax])


def fused_amax_and_scale_update_after_reduction(buffer, histories, scales, algorithm, dtype, margin):
    launch("fused_amax_and_scale_update_after_reduction", [buffer, *histories, *scales], [*histories, *scales])


def waits_for_swizzle(tensor):
    return kind_of(getattr(tensor, "_quantizer", None)) == MXFP8 and not tensor._with_gemm_swizzled_scales


def swizzled(tensor, rowwise):
    """Creates the scales of a tensor in the order that matrix products need. The scales are freed after the product."""
    if not waits_for_swizzle(tensor):
        return None
    scales = tensor._rowwise_scale_inv if rowwise else tensor._columnwise_scale_inv
    made = torch.empty_like(scales)
    launch("swizzle_scales_for_gemm", [scales], [made])
    return made


QUANTIZATION = {
    function.__name__: function
    for function in (quantize, dequantize, create_empty_quantized_tensor, multi_tensor_quantize, split_quantize,
                     bgrad_quantize, fp8_transpose, swap_first_dims, compute_amax,
                     fused_amax_and_scale_update_after_reduction)
}
