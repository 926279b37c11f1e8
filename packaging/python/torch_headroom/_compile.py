# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch.compile on the simulated GPU. Dynamo, AOTAutograd, the partitioner and Inductor run unchanged, and so does
Inductor's generated code; only its kernels do nothing (_compile_kernels.py). Inductor's decisions by measurement are
made without measuring (_compile_choices.py)."""

import importlib.util
import pathlib

import torch

from . import _compile_choices, _compile_kernels, _compile_left_out, _compiled_autograd, _optimizer_hooks, _remarks
from ._around import patch_around
from ._compiling import follow
from ._simulate_refusals import change_after_import

# Modules that Dynamo must not compile, though it compiles what they call: the recorder's hooks and the replacement of
# torch.cuda.
_OURS = ("_arguments", "_around", "_attributes", "_batch", "_checkpointing", "_compile", "_containers", "_copies",
         "_endless_loops", "_loop", "_memory_reads", "_modules", "_opaque", "_simulate", "_step", "_step_hooks",
         "record")


def patch(card):
    """Patches torch.compile. Imports nothing for programs that do not compile."""
    _remarks.ask(_sentences)
    _let_higher_order_operators_through()
    if importlib.util.find_spec("triton") is None:
        _compile_left_out.patch()
        return
    change_after_import("torch._dynamo.callback", follow)
    change_after_import("torch._dynamo.compiled_autograd", _compiled_autograd.follow)
    change_after_import("torch._dynamo.trace_rules", _leave_ours_out)
    _compile_kernels.patch()
    _compile_choices.patch(card)
    _optimizer_hooks.patch()


def _leave_ours_out(module):
    package = pathlib.Path(__file__).parent
    module.SKIP_DIRS.extend(str(package / name) for name in _OURS)
    module._recompile_re()


def _sentences():
    """Returns remarks on how torch.compile would act differently on a real card."""
    return [*_compile_left_out.sentences(), *_compile_choices.sentences()]


def _let_higher_order_operators_through():
    """Lets operators that call functions (flex_attention, checkpoints in graphs) pass the dispatch key that routes ops
    to the simulated GPU: they are implemented in Python, and that key has no kernel for them."""
    keys = torch._C.DispatchKeySet
    own = torch._C._dispatch_tls_local_include_set()
    for usual in ("BackendSelect", "ADInplaceOrView"):
        own = own.remove(getattr(torch._C.DispatchKey, usual))

    def let_through(operator, *_, **__):
        operator.non_fallthrough_keys = keys.from_raw_repr(operator.non_fallthrough_keys.raw_repr() & ~own.raw_repr())

    patch_around(torch._ops.HigherOrderOperator, "__init__", after=let_through)
    for operator in torch._ops._higher_order_ops.values():
        let_through(operator)
