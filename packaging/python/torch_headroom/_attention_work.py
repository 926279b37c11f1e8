# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much attention computes: two products of matrices forward, five backward, over the pairs of a query and a key that
the mask lets meet."""

import ctypes
import functools

from ._library import load

FORWARD, BACKWARD = 2, 5  # products of [length, width] matrices


@functools.lru_cache(4096)
def pairs(queries, keys, left=-1, right=-1):
    """Of one sequence and head. The last query meets the last key; `left` and `right` are the window, -1: no bound."""
    shift = keys - queries
    count = 0
    for i in range(queries):
        first = 0 if left < 0 else max(0, i + shift - left)
        last = keys - 1 if right < 0 else min(keys - 1, i + shift + right)
        count += max(0, last - first + 1)
    return count


def flops(query, key, value, products, causal, window, ends=None):
    """`query`, `key` and `value` are [batch, length, heads, width], or [all tokens, heads, width] with `ends`: the tensors
    that say where the sequences of queries and of keys end."""
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
    """Of sequences, of which `ends` is the sum up to each; all the same where nobody knows the sums."""
    count = ends.numel()
    values = (ctypes.c_int64 * count)()
    if load().headroom_known_integers(ctypes.c_void_p(ends._cdata), values):
        return [end - begin for begin, end in zip(values, values[1:])]
    return [total // max(count - 1, 1)] * (count - 1)
