# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""--without-checkpointing: the script's own checkpoints run as plain calls, to show what a plan could do instead."""

import functools

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
