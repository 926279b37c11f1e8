# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch_headroom.simulate(): `cuda` becomes a simulated GPU in this process."""

import atexit
import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import sys
import tempfile

from .._library import OWN_FOLDER, HeadroomError, check, gpu_name, load, torch_folder
from .._plan.fitting import fit_call
from .._plan.planning import ALLOCATOR_VARIABLES
from .._plan.recordings import cache_folder
from . import set_simulated_card, simulated_card


def simulate(gpu="h100-80gb"):
    """Makes `cuda` the simulated card `gpu` in this process: tensors have sizes and lifetimes but no memory, and
    nothing is computed. Call before anything imports torch. A second call with the same card does nothing. Raises
    HeadroomError for an unknown card, for a second card, and if torch is imported already.

    Values follow these rules. Tensors of at most 64 KiB, and tensors of integers and booleans of at most 4 MiB, keep
    true values if the values follow from values that the program made or copied to the GPU: a loss scale, masks,
    lengths, labels, boxes. For every other value the program reads a placeholder: zero in a tensor copied to the CPU,
    one for `.item()`, all elements where a mask or nonzero() selects some. topk(), argmax() and similar ops choose all
    elements in turn, so that each expert of a mixture gets equally many tokens. If a part of an operator's input is
    known, the results that follow from that part are known too: unknown | True is True. A `while` that reads ten
    thousand placeholders is ended unless the loop counts, since the loop may never end; so is any loop after a million.
    Tensors on the CPU have the same values as without Headroom, but the random values of large tensors are drawn only
    at the first read. Memory is the card's: an allocation beyond the memory raises torch.OutOfMemoryError, after which
    the program may go on.
    """
    card, simulated = _known_card(gpu), simulated_card()
    if simulated is not None:
        # fit() records the program for other cards than the program's own.
        if simulated["name"] != card["name"] and not fit_call():
            raise HeadroomError(f"this process simulates {simulated['name']} already: start another process to "
                                "simulate "
                                f"{card['name']}")
        return
    _refuse_late_call()
    _refuse_other_backend()
    library = load()
    _load_cuda()
    library.headroom_claim_cuda()
    _set_compile_cache(card["name"])
    import torch  # torch's libraries must be loaded before the device is created

    check(library.headroom_simulate(card["name"].encode(), b"cuda"))
    atexit.register(library.headroom_await_autograd)
    from .. import _compile, _modules
    from . import cuda, cuda_graphs, placeholders, refusals

    cuda.patch(library, card)
    cuda.at_first_use(_refuse_other_backend)  # a program may set the variables itself
    refusals.patch()
    placeholders.patch_random_values(library)
    placeholders.patch_placeholders(library)
    _modules.watch()
    _compile.patch(card)
    cuda_graphs.patch()
    set_simulated_card(card)


def _refuse_other_backend():
    """PyTorch reads the option when the libraries are loaded, and would then reach the driver."""
    if "PYTORCH_NO_CUDA_MEMORY_CACHING" in os.environ:
        raise HeadroomError("PYTORCH_NO_CUDA_MEMORY_CACHING turns PyTorch's caching allocator off, and Headroom's "
                            "simulated GPU has no other allocator: unset the variable")
    for name in ALLOCATOR_VARIABLES:
        for option in os.environ.get(name, "").replace(" ", "").split(","):
            if option.startswith("backend:") and option != "backend:native":
                raise HeadroomError(f"{name} asks for {option}, and Headroom's simulated GPU has only backend:native: "
                                    "take the option out")


def _known_card(gpu):
    cards = {card["name"]: card for card in json.loads(load().headroom_devices())}
    name = gpu_name(gpu)
    if name not in cards:
        raise HeadroomError(f"unknown GPU '{gpu}': expected {', '.join(cards)}")
    return cards[name]


def _load_cuda():
    """Loads libtorch_cuda, which CPU wheels do not have, before the library's hooks are replaced: hooks registered
    later would warn on stderr."""
    path = torch_folder() / "lib" / "libtorch_cuda.so"
    if path.exists():
        ctypes.CDLL(str(path))


def _writable_folder(card):
    """Returns the folder for torch.compile: the user's cache, or a temporary folder if nothing can be written there.
    PyTorch makes the folder at the first step of an optimizer, also of a program that compiles nothing."""
    for root in cache_folder, lambda: pathlib.Path(tempfile.gettempdir(), f"torch-headroom-{os.getuid()}"):
        with contextlib.suppress(OSError):
            folder = root() / "inductor" / card
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK | os.X_OK):
                return folder
    return cache_folder() / "inductor" / card  # an error of PyTorch, as without a temporary folder anyway


def _set_compile_cache(card):
    """Gives torch.compile a cache folder and key for the card and for the source of _compile.py: on a real card the
    same graph has kernels that compute. Must run before the import of torch, which reads the variables."""
    version = hashlib.sha256(pathlib.Path(OWN_FOLDER, "_compile.py").read_bytes()).hexdigest()[:16]
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(_writable_folder(card))
    os.environ["TORCH_COMPILE_CACHE_KEY_TAG"] = f"torch-headroom {card} {version}"
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no kernels to compile in parallel


def _refuse_late_call():
    torch = sys.modules.get("torch")
    if torch is None:
        return
    if hasattr(torch, "cuda") and torch.cuda.is_initialized():
        raise HeadroomError("CUDA is already in use in this process, and a process has either real or simulated "
                            "GPUs: call torch_headroom.simulate() in the first lines of the program, before "
                            "anything imports "
                            "torch")
    raise HeadroomError("torch was imported before torch_headroom.simulate(): call simulate() in the first lines of "
                        "the "
                        "program, before anything imports torch (in a notebook: restart the kernel first)")
