// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/python_int_set.h"

namespace headroom {
namespace {

constexpr int unused = -1;
constexpr int dummy = -2;
constexpr std::size_t minimumSize = 8;
constexpr std::size_t linearProbes = 9;
constexpr int perturbShift = 5;

/// Above this many elements a table grows by 2 instead of 4.
constexpr std::size_t slowGrowth = 50000;

std::size_t grown(std::size_t used)
{
    return used > slowGrowth ? used * 2 : used * 4;
}

} // namespace

PythonIntSet::PythonIntSet()
    : table_(minimumSize, unused)
{
}

PythonIntSet::PythonIntSet(std::span<const int> values)
    : PythonIntSet()
{
    update(values);
}

std::size_t PythonIntSet::slotFor(int value) const
{
    const std::size_t mask = table_.size() - 1;
    const auto hash = static_cast<std::size_t>(value);
    std::size_t perturb = hash;
    std::size_t i = hash & mask;
    while (true) {
        const std::size_t last = i + linearProbes <= mask ? i + linearProbes : i;
        for (std::size_t slot = i; slot <= last; ++slot) {
            if (table_[slot] == unused || table_[slot] == value)
                return slot;
        }
        perturb >>= perturbShift;
        i = (i * 5 + 1 + perturb) & mask;
    }
}

void PythonIntSet::add(int value)
{
    const std::size_t slot = slotFor(value);
    if (table_[slot] == value)
        return;
    table_[slot] = value;
    ++used_;
    ++fill_;
    if (fill_ * 5 >= (table_.size() - 1) * 3)
        resize(grown(used_));
}

void PythonIntSet::resize(std::size_t minimumUsed)
{
    std::size_t size = minimumSize;
    while (size <= minimumUsed)
        size *= 2;
    const std::vector<int> old = values();
    table_.assign(size, unused);
    for (const int value : old)
        table_[slotFor(value)] = value;
    fill_ = used_;
}

void PythonIntSet::update(const PythonIntSet& other)
{
    if (&other == this || other.used_ == 0)
        return;
    if ((fill_ + other.used_) * 5 >= (table_.size() - 1) * 3)
        resize((used_ + other.used_) * 2);
    if (fill_ == 0 && table_.size() == other.table_.size() && other.fill_ == other.used_) {
        *this = other;
        return;
    }
    for (const int value : other.values())
        add(value);
}

void PythonIntSet::update(std::span<const int> values)
{
    for (const int value : values)
        add(value);
}

void PythonIntSet::discard(int value)
{
    int& slot = table_[slotFor(value)];
    if (slot != value)
        return;
    slot = dummy;
    --used_;
}

PythonIntSet PythonIntSet::difference(const PythonIntSet& other) const
{
    PythonIntSet result;
    if ((used_ >> 2) > other.used_) {
        // This set is much larger than `other`: the set is copied, and the values of `other` are removed.
        result.update(*this);
        for (const int value : other.values())
            result.discard(value);
        if (result.fill_ - result.used_ > (result.table_.size() - 1) / 4)
            result.resize(grown(result.used_));
        return result;
    }
    for (const int value : values()) {
        if (!other.contains(value))
            result.add(value);
    }
    return result;
}

bool PythonIntSet::contains(int value) const
{
    return table_[slotFor(value)] == value;
}

std::vector<int> PythonIntSet::values() const
{
    std::vector<int> result;
    result.reserve(used_);
    for (const int value : table_) {
        if (value >= 0)
            result.push_back(value);
    }
    return result;
}

} // namespace headroom
