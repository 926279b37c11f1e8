# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remarks on how a recorded step differs from the user's program on the card, as sentences with the effect. Remarks are
shown beside the peak wherever a step is shown (core/trace/remarks.h).

Two sources of remarks are here. Reads of the card's memory by a model's forward or backward give other numbers under a
plan. CUDA's managed memory (paged optimizers of bitsandbytes) is host memory: pages move to the card as far as there is
room, and do not count as the step's memory."""

import functools
import os
import sys
import weakref

import torch

from .._kernels import launches
from .._library import OWN_FOLDER
from .._simulate import placeholders
from .._torch import compiling

_of_process = {}  # sentence -> True, in order, for sentences that apply to every step of this process
_sources = []  # functions that return sentences
_OF_PLACEHOLDERS = {
    placeholders.decisions:
        "the program asked {} whether something is true that nobody knows without data, and was given an answer: on "
        "the card the step may go another way from there",
    placeholders.sizes:
        "the sizes of results were invented {}, as only data says them: on the card they may be smaller, and memory "
        "with them",
    placeholders.of_other_ranks:
        "the program read what other ranks told {}, and they were taken to hold what this one holds: on the card the "
        "step may go another way from there",
    placeholders.queries:
        "the program asked {} whether work of the card is done (query), and was told that it is: on the card it may "
        "not be, and memory that waits for it lives longer",
}


def add(sentence):
    """Adds a sentence that applies to every later step."""
    _of_process[sentence] = True


def add_source(source):
    """Adds a source, whose sentences are read at the end of each step."""
    _sources.append(source)


def begin():
    """Resets the counters at the start of a step."""
    for counter in (*_OF_PLACEHOLDERS, placeholders.timings):
        counter.clear()
    launches.counts.clear()
    _forget_memory_reads()


def of_step():
    """Returns the sentences of the last step."""
    of_sources = (sentence for source in _sources for sentence in source())
    sentences = [*_of_process, *_memory_read_sentences(), *_of_kernels(), *of_sources]
    if _managed_bytes:
        sentences.append(f"{_managed_bytes:,} bytes are managed memory of paged optimizers, which is the host's "
                         "and not part of the peak: on the card it takes room only where there is some")
    sentences += [sentence.format(counter) for counter, sentence in _OF_PLACEHOLDERS.items() if counter.count]
    return sentences


def _of_kernels():
    by_way = {}
    for (name, how), count in launches.counts.items():
        by_way.setdefault(how, []).append(f"{name} ({count:,} ×)")
    for how, kernels in by_way.items():
        yield f"kernels that are not PyTorch's, whose time is a guess by {how}: {', '.join(kernels)}"
    if launches.choices:
        kernels = ", ".join(sorted(launches.choices))
        yield f"configurations that are chosen by measuring on the card, of which the first was taken: {kernels}"


_TORCHS = os.path.dirname(torch.__file__) + os.sep
_READERS = tuple(_TORCHS + name + os.sep for name in ("cuda", "accelerator"))
_MOST_NAMED = 2  # modules in the remark

_place = None  # function that returns the name of the running module; empty: none; None: nothing is recorded now
_reading_modules, _read_functions = {}, {}  # names of the readers in this step, in order


def follow_memory_reads(place):
    """Sets the function that says where the program is: the name of the module that runs now, "backward", or an empty
    string outside of the step's forward and backward."""
    global _place
    _place = place


def _forget_memory_reads():
    """Forgets the reads of earlier steps."""
    _reading_modules.clear()
    _read_functions.clear()


def modules_that_read_memory():
    """Returns the names of the modules that have read the card's memory in this step."""
    return list(_reading_modules)


def notes_memory_reads(function):
    """Decorates a function of torch._C that reads the card's memory."""

    @functools.wraps(function)
    def read(*arguments, **named):
        where = _place() if _place and not compiling.now else ""
        if where:
            _note_memory_read(where)
        return function(*arguments, **named)

    return read


def _note_memory_read(where):
    frame, name = sys._getframe(2), ""
    while frame is not None and frame.f_code.co_filename.startswith(_READERS):
        name, frame = frame.f_code.co_name, frame.f_back
    # A policy that watches the plan, or PyTorch itself.
    if frame is not None and frame.f_code.co_filename.startswith((OWN_FOLDER, _TORCHS)):
        return
    _reading_modules[where] = _read_functions[name or "mem_get_info"] = True


def _memory_read_sentences():
    """Returns the remark on the step, if there were reads."""
    if not _reading_modules:
        return []
    named = list(_reading_modules)[:_MOST_NAMED]
    more = len(_reading_modules) - len(named)
    places = " and ".join(named) if not more else f"{', '.join(named)} and {more} more"
    return [f"the model reads the card's memory while it computes ({', '.join(_read_functions)}, in {places}): on the "
            "card and under a plan it reads other numbers, and may run other ops and take other memory than recorded "
            "and planned. Give it a fixed number in place of these (a chunk size), then record the step again"]


_managed_bytes = 0  # bytes


def patch_bitsandbytes(functional):
    prefetch, elementwise = functional.prefetch_tensor, functional.elementwise_func

    def get_paged(*shape, dtype=torch.float32, device=None):
        paged = torch.zeros(shape, dtype=dtype)  # the pages are not touched yet
        paged.is_paged, paged.page_deviceid = True, 0
        _count_managed(paged)
        return paged

    def prefetch_tensor(tensor, to_cpu=False):
        if not getattr(tensor, "is_paged", False):
            prefetch(tensor, to_cpu)

    def elementwise_func(name, tensor, *arguments, **named):
        if not getattr(tensor, "is_paged", False):
            elementwise(name, tensor, *arguments, **named)

    functional.get_paged, functional.prefetch_tensor = get_paged, prefetch_tensor
    functional.elementwise_func = elementwise_func


def _count_managed(tensor):
    global _managed_bytes
    _managed_bytes += tensor.nbytes
    weakref.finalize(tensor.untyped_storage(), _managed_freed, tensor.nbytes).atexit = False


def _managed_freed(size):
    global _managed_bytes
    _managed_bytes -= size
