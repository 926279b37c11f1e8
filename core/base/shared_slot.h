// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace headroom {

/// A pointer that threads read while another one sets it. Each reader holds what it has read: an object that is
/// replaced lives until its last reader lets go of it.
template <class T>
class SharedSlot
{
public:
    std::shared_ptr<T> get() const
    {
        const std::lock_guard lock(mutex_);
        return pointer_;
    }

    /// Returns the pointer before, so that its object is not destroyed under the lock.
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
