# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remarks on how a recorded step differs from the user's program on the card, as sentences with the effect. Remarks are
shown beside the peak wherever a step is shown (core/trace/remarks.h). Each topic has a module, which adds a source of
sentences here."""

# Topics, in the order in which the sentences are shown.
MEMORY_READS, KERNELS, DETERMINISM, COMPILATION, MANAGED_MEMORY, PLACEHOLDERS, FIT, OPTIMIZERS = range(8)

_of_process = {}  # sentence -> True, in order, for sentences that apply to every step of this process
_sources = {}  # topic -> (function that returns sentences, function that begins a step or None)


def add(sentence):
    """Adds a sentence that applies to every later step."""
    _of_process[sentence] = True


def add_source(topic, sentences, begin=None):
    """Adds the source of a topic. `sentences()` is called at the end of each step and returns sentences; `begin()`, if
    given, is called at the start of each step."""
    _sources[topic] = sentences, begin


def begin():
    """Resets the sources at the start of a step."""
    for _, begin_step in _sources.values():
        if begin_step:
            begin_step()


def of_step():
    """Returns the sentences of the last step."""
    return [*_of_process, *(sentence for topic in sorted(_sources) for sentence in _sources[topic][0]())]
