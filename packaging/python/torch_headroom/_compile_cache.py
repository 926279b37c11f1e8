# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cache folder of torch.compile for the simulated GPU. Imports no torch, which reads the settings when it is
imported."""

import hashlib
import os
import pathlib

_PACKAGE = pathlib.Path(__file__).parent


def prepare(card):
    """Sets a folder and a key of its own: on a real card the same graph has kernels that compute."""
    sources = b"".join(path.read_bytes() for path in sorted(_PACKAGE.glob("_compile*.py")))
    version = hashlib.sha256(sources).hexdigest()[:16]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(home, "torch-headroom", "inductor", card)
    os.environ["TORCH_COMPILE_CACHE_KEY_TAG"] = f"torch-headroom {card} {version}"
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no kernels to compile in parallel
