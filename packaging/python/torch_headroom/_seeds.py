# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random numbers of a recorded script that sets no seed. Where they decide sizes, as of masks and boxes, a step under a
policy takes what was planned only if it draws the same ones."""

import random

import torch

from ._simulate_refusals import change_after_import

_SEED = 0


def set_seeds():
    """Seeds Python, PyTorch and NumPy."""
    random.seed(_SEED)
    torch.manual_seed(_SEED)
    change_after_import("numpy.random", lambda module: module.seed(_SEED))
