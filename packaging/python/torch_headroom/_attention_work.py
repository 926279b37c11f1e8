# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The flops of attention: two matrix products forward, five backward, over the pairs of a query and a key that the mask
permits."""

import ctypes
import functools

from ._library import load

FORWARD, BACKWARD = 2, 5  # products of [length, width] matrices


@functools.lru_cache(4096)
def pairs(queries, keys, left=-1, right=-1):
    """Returns the number of pairs in one sequence and head. The last query is aligned with the last key. `left` and
    `right` are the size of the window in tokens; -1: unlimited."""
    shift = keys - queries
    count = 0
    for i in range(queries):
        first = 0 if left < 0 else max(0, i + shift - left)
        last = keys - 1 if right < 0 else min(keys - 1, i + shift + right)
        count += max(0, last - first + 1)
    return count


def flops(query, key, value, products, causal, window, ends=None):
    """Returns the flops. `query`, `key` and `value` are [batch, length, heads, width]. With `ends`, the tensors of the
    cumulative lengths of query and key sequences, they are [all tokens, heads, width]."""
    right = 0 if causal else window[1]
    width = query.shape[-1] if products == BACKWARD else (query.shape[-1] + value.shape[-1]) / 2
    heads = query.shape[-2]
    if ends is None:
        count = query.shape[0] * pairs(query.shape[1], key.shape[1], window[0], right)
    else:
        lengths = zip(lengths_of(ends[0], query.shape[0]), lengths_of(ends[1], key.shape[0]))
        count = sum(pairs(queries, keys, window[0], right) for queries, keys in lengths)
    return int(2 * products * count * heads * width)


def lengths_of(ends, total):
    """Returns the lengths of sequences from their cumulative sums `ends`; equal lengths if the sums are not known."""
    count = ends.numel()
    values = (ctypes.c_int64 * count)()
    if load().headroom_known_integers(ctypes.c_void_p(ends._cdata), values):
        return [end - begin for begin, end in zip(values, values[1:])]
    return [total // max(count - 1, 1)] * (count - 1)
