// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace headroom {

/// A shared pointer that threads read while another thread sets it. A replaced object lives until the last reader
/// releases the object.
template <class T>
class SharedSlot
{
public:
    std::shared_ptr<T> get() const
    {
        const std::lock_guard lock(mutex_);
        return pointer_;
    }

    /// Returns the previous pointer, so that the object is not destroyed under the lock.
    std::shared_ptr<T> set(std::shared_ptr<T> pointer)
    {
        const std::lock_guard lock(mutex_);
        return std::exchange(pointer_, std::move(pointer));
    }

private:
    mutable std::mutex mutex_;
    std::shared_ptr<T> pointer_;
};

} // namespace headroom
