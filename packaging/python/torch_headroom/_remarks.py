# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remarks on how a recorded step differs from the user's program on the card, as sentences with the effect. They are
shown beside the peak wherever a step is shown (core/trace/remarks.h)."""

from . import _endless_loops, _managed_memory, _memory_reads, _opaque

_said = {}  # sentence -> True, in order: those that apply to every step of this process
_sources = []  # functions that return sentences
_OF_INVENTIONS = {
    _endless_loops.decisions:
        "the program asked {} whether something is true that nobody knows without data, and was given an answer: on "
        "the card the step may go another way from there",
    _endless_loops.sizes:
        "the sizes of results were invented {}, as only data says them: on the card they may be smaller, and memory "
        "with them",
    _endless_loops.of_other_ranks:
        "the program read what other ranks told {}, and they were taken to hold what this one holds: on the card the "
        "step may go another way from there",
    _endless_loops.queries:
        "the program asked {} whether work of the card is done (query), and was told that it is: on the card it may "
        "not be, and memory that waits for it lives longer",
}


def add(sentence):
    """Adds a sentence that applies to every later step."""
    _said[sentence] = True


def ask(source):
    """Adds a source, whose sentences are read at the end of each step."""
    _sources.append(source)


def begin():
    """Resets the counters at the start of a step."""
    for inventions in (*_OF_INVENTIONS, _endless_loops.timings):
        inventions.clear()
    _opaque.launches.clear()
    _memory_reads.begin()


def of_step():
    """Returns the sentences of the last step."""
    of_sources = (sentence for source in _sources for sentence in source())
    sentences = [*_said, *_memory_reads.sentences(), *_of_kernels(), *of_sources]
    if _managed_memory.live:
        sentences.append(f"{_managed_memory.live:,} bytes are managed memory of paged optimizers, which is the host's "
                         "and not part of the peak: on the card it takes room only where there is some")
    sentences += [sentence.format(inventions) for inventions, sentence in _OF_INVENTIONS.items() if inventions.count]
    return sentences


def _of_kernels():
    by_way = {}
    for (name, how), count in _opaque.launches.items():
        by_way.setdefault(how, []).append(f"{name} ({count:,} ×)")
    for how, kernels in by_way.items():
        yield f"kernels that are not PyTorch's, whose time is a guess by {how}: {', '.join(kernels)}"
    if _opaque.choices:
        kernels = ", ".join(sorted(_opaque.choices))
        yield f"configurations that are chosen by measuring on the card, of which the first was taken: {kernels}"
