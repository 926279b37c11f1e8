# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""--without-checkpointing: what a script checkpoints itself runs as a plain call, to see what a plan could do without."""

import functools

import torch.utils.checkpoint

_OF_CHECKPOINT = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state")


def leave_out():
    """From now on torch.utils.checkpoint saves everything. Called before a program or a library imports it by name."""
    from . import _apply  # noqa: F401  (a policy that the script applies is none of its own checkpoints)

    original = torch.utils.checkpoint.checkpoint

    @functools.wraps(original)
    def checkpoint(function, *arguments, **named):
        return function(*arguments, **{name: value for name, value in named.items() if name not in _OF_CHECKPOINT})

    torch.utils.checkpoint.checkpoint = checkpoint  # checkpoint_sequential() calls it, too
