# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program's own checkpoints: whether the running code is inside of one, and --without-checkpointing, which runs
them as plain calls, to show what a plan could do instead."""

import functools
import sys

import torch.utils.checkpoint

# Arguments of checkpoint() that it does not pass to the function.
_OPTIONS = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state")


def leave_out():
    """Makes torch.utils.checkpoint save everything. Call it before a program or a library imports checkpoint() by
    name."""
    from . import _apply  # imported first: policies that the script applies keep their checkpoints

    original = torch.utils.checkpoint.checkpoint

    @functools.wraps(original)
    def checkpoint(function, *arguments, **named):
        return function(*arguments, **{name: value for name, value in named.items() if name not in _OPTIONS})

    torch.utils.checkpoint.checkpoint = checkpoint  # checkpoint_sequential() calls it too


def pack_hook():
    """Returns the function that receives what autograd saves now; None: autograd keeps the tensors itself."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return None if hooks is None else hooks[0]


def is_of_checkpoint(hook):
    """Returns whether a pack_hook() belongs to a checkpoint without reentry, or to the recomputation of one."""
    return hook is not None and getattr(hook, "__module__", "") == torch.utils.checkpoint.__name__


def in_reentrant_checkpoint():
    """Returns whether this thread runs the forward or the recomputation of a checkpoint with reentry."""
    frame, wanted = sys._getframe(1), _reentrant_code()
    while frame is not None and frame.f_code not in wanted:
        frame = frame.f_back
    return frame is not None


@functools.cache
def _reentrant_code():
    function = torch.utils.checkpoint.CheckpointFunction
    return frozenset((function.forward.__code__, function.backward.__code__))
