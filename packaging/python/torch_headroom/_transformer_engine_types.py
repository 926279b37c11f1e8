# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Enumerations and classes of transformer_engine_torch. Source: github.com/NVIDIA/TransformerEngine,
transformer_engine/common/util/pybind_helper.h, common/include/transformer_engine/{transformer_engine,fused_attn,
comm_gemm_overlap}.h and pytorch/csrc/common.h, version 2.20.2."""

import enum

from ._library import HeadroomError


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
    raise HeadroomError("TransformerEngine overlaps communication with matrix products in buffers of its own, which "
                        "Headroom does not know: record without ub_overlap_… and initialize_ub()")


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
