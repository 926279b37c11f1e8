# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""DeepSpeed's optimizers. DeepSpeed compiles their kernels at first use, with a CUDA compiler. Source:
github.com/deepspeedai/DeepSpeed, csrc/adam, csrc/lion, csrc/lamb and csrc/adagrad, version 0.19.8."""

import functools
import importlib

import torch

from . import _opaque, _remarks
from ._apex import multi_tensor
from ._extensions import module_of


def _lamb(parameter, copy, exp_avg, exp_avg_sq, grad, *numbers):
    dtype = torch.float32 if parameter.dtype == torch.half else parameter.dtype
    make = functools.partial(torch.empty, dtype=dtype, device=parameter.device)
    weights, updates, coefficient = map(make, (512, 512, 1))
    written = [parameter, copy, exp_avg, exp_avg_sq, weights, updates, coefficient]
    _opaque.launch("fused_lamb.lamb", [parameter, exp_avg, exp_avg_sq, grad], written, how=_opaque.TABLE)
    return coefficient


def _leave_out_cpu_optimizer(name, *_):
    _remarks.add(f"{name} of DeepSpeed, which runs on the CPU, was left out: it takes no memory of the GPU, and its "
                 "time, for which the GPU waits, is not part of the step's")
    return 0


def _fused(kind):
    call = f"multi_tensor_{kind}"
    return {call: functools.partial(multi_tensor, f"fused_{kind}.{call}", 1)}


def _optimizer(kind):
    calls = (f"create_{kind}", f"{kind}_update", f"{kind}_rollback", f"destroy_{kind}")
    return {call: functools.partial(_leave_out_cpu_optimizer, f"cpu_{kind}") for call in calls}


MODULES = {
    "deepspeed.ops.adam.fused_adam_op": _fused("adam"),
    "deepspeed.ops.lion.fused_lion_op": _fused("lion"),
    "deepspeed.ops.lamb.fused_lamb_op": {"lamb": _lamb},
    "deepspeed.ops.adam.cpu_adam_op": _optimizer("adam"),
    "deepspeed.ops.lion.cpu_lion_op": _optimizer("lion"),
    "deepspeed.ops.adagrad.cpu_adagrad_op": _optimizer("adagrad"),
}


def patch(builders):
    """Changes deepspeed.ops.op_builder.builder: an OpBuilder loads a stand-in instead of compiling, or, for unknown
    CUDA kernels, a module that refuses them by name."""
    build = builders.OpBuilder.load

    def load(builder, verbose=False):
        name = builder.absolute_name()
        if name in MODULES:
            return importlib.import_module(name)
        return module_of(name) if isinstance(builder, builders.CUDAOpBuilder) else build(builder, verbose)

    builders.OpBuilder.load = load


def answer_overflow(utils):
    """Changes deepspeed.runtime.utils: a norm of gradients counts as valid, so that training goes on. Without data its
    sign is unknown."""
    ask = utils.is_invalid_grad_norm
    utils.is_invalid_grad_norm = lambda norm: ask(torch.ones_like(norm) if torch.is_tensor(norm) else norm)
