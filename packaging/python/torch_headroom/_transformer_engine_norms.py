# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Norms of transformer_engine_torch. Source: github.com/NVIDIA/TransformerEngine, pytorch/csrc/extensions/
normalization.cpp, version 2.20.2, and common/normalization/{common,rtc_dispatch}.cpp, commit d0067d0d."""

import torch

from ._transformer_engine_norm_kernels import blocks_per_processor, kernel_of
from ._transformer_engine_tensors import CURRENT, DELAYED, create, finish, flat, kind_of, launch, rounded, torch_dtype


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
