// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace headroom {

/// A set of small non-negative ints that iterates in the order of CPython's `set` (Objects/setobject.c, 3.7 to 3.13).
///
/// PyTorch's greedy order has the candidates in Python sets, so that ops of equal rank (identical
/// layers have many) are in the order of the set's hash slots. Only the same order gives the same trade-off curve.
class PythonIntSet
{
public:
    PythonIntSet();
    /// Like set(iterable).
    explicit PythonIntSet(std::span<const int> values);

    void add(int value);
    void update(const PythonIntSet& other); ///< like update() with a set
    void update(std::span<const int> values); ///< like update() with a list
    PythonIntSet difference(const PythonIntSet& other) const; ///< like the operator -
    bool contains(int value) const;
    std::size_t size() const noexcept { return used_; }

    std::vector<int> values() const; ///< in the order of iteration

private:
    std::size_t slotFor(int value) const; ///< slot of `value`, or the free slot where it would be inserted
    void resize(std::size_t minimumUsed);
    void discard(int value);

    std::vector<int> table_; ///< value, or one of the marks `unused` and `dummy`
    std::size_t used_ = 0;
    std::size_t fill_ = 0; ///< used slots and dummies
};

} // namespace headroom
