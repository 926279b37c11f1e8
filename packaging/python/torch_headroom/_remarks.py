# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remarks on how a recorded step differs from the user's program on the card, as sentences with the effect. They are
shown beside the peak wherever a step is shown (core/trace/remarks.h)."""

from . import _endless_loops, _managed_memory, _opaque

_said = {}  # sentences of this process, in order
_sources = []  # functions that return sentences


def add(sentence):
    """Adds a sentence that applies to every later step."""
    _said[sentence] = True


def ask(source):
    """Adds a source, whose sentences are read at the end of each step."""
    _sources.append(source)


def begin():
    """Resets the counters at the start of a step."""
    _endless_loops.decisions.clear()
    _endless_loops.sizes.clear()
    _endless_loops.of_other_ranks.clear()
    _opaque.launches.clear()


def of_step():
    """Returns the sentences of the last step."""
    sentences = [*_said, *_of_kernels(), *(sentence for source in _sources for sentence in source())]
    if _managed_memory.live:
        sentences.append(
            f"{_managed_memory.live:,} bytes are managed memory of paged optimizers, which is the host's and not part "
            "of the peak: on the card it takes room only where there is some"
        )
    if _endless_loops.decisions.count:
        sentences.append(
            f"the program asked {_endless_loops.decisions} whether something is true that nobody knows without data, "
            "and was given an answer: on the card the step may go another way from there"
        )
    if _endless_loops.sizes.count:
        sentences.append(
            f"the sizes of results were invented {_endless_loops.sizes}, as only data says them: on the card they may "
            "be smaller, and memory with them"
        )
    if _endless_loops.of_other_ranks.count:
        sentences.append(
            f"the program read what other ranks told {_endless_loops.of_other_ranks}, and they were taken to hold what "
            "this one holds: on the card the step may go another way from there"
        )
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
