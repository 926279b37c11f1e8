// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/autocast_mode.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>

namespace headroom {

/// `with torch.autocast(device, dtype, enabled, cache_enabled)`. The end of the outermost scope frees the cached casts
/// of weights.
class AutocastScope
{
public:
    struct Options
    {
        c10::DeviceType device = c10::kCPU;
        std::optional<c10::ScalarType> dtype; ///< nullopt: the device's current type
        bool enabled = true;
        std::optional<bool> cache = std::nullopt; ///< nullopt: unchanged
    };
    explicit AutocastScope(const Options& options)
        : device_(options.device)
        , enabledBefore_(at::autocast::is_autocast_enabled(device_))
        , cacheBefore_(at::autocast::is_autocast_cache_enabled())
        , dtypeBefore_(at::autocast::get_autocast_dtype(device_))
    {
        at::autocast::set_autocast_enabled(device_, options.enabled);
        at::autocast::set_autocast_dtype(device_, options.dtype.value_or(dtypeBefore_));
        at::autocast::set_autocast_cache_enabled(options.cache.value_or(cacheBefore_));
        at::autocast::increment_nesting();
    }
    ~AutocastScope()
    {
        if (at::autocast::decrement_nesting() == 0)
            at::autocast::clear_cache();
        at::autocast::set_autocast_enabled(device_, enabledBefore_);
        at::autocast::set_autocast_dtype(device_, dtypeBefore_);
        at::autocast::set_autocast_cache_enabled(cacheBefore_);
    }
    AutocastScope(const AutocastScope&) = delete;
    AutocastScope& operator=(const AutocastScope&) = delete;

private:
    c10::DeviceType device_;
    bool enabledBefore_;
    bool cacheBefore_;
    c10::ScalarType dtypeBefore_;
};

} // namespace headroom
