# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernels of norms in TransformerEngine, of which one is chosen by the width of the rows, and the number of their
blocks that fit a multiprocessor. Source: github.com/NVIDIA/TransformerEngine, common/normalization/{layernorm,rmsnorm}/
*_kernel.cu, commit d0067d0d; the registers that they take, as NVRTC 13.0 compiles them for each architecture, as the
library does when it runs."""

import bisect
import collections

import torch

from ._transformer_engine_tensors import architecture

# width: columns of a row that a block computes. across: blocks of a row. rows: those of a block. general: the kernel
# takes any number of columns.
Kernel = collections.namedtuple("Kernel", "width across rows general")


def _tuned(rows_of_four, *parts):
    """Describes kernels by their widths: those of four rows in a block, and (blocks of a row, widths)."""
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

# Blocks on a multiprocessor, a digit (to base 36) for each kernel of _BACKWARDS, first the tuned ones, by their widths.
# f: float32, h: float16, b: bfloat16; the first letter is the weight's, the second the input's.
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
    """Returns the kernel for rows of this many columns: one tuned for them, or a general one that is as wide."""
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
