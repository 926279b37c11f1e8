// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/autocast_scope.h"

#include <ATen/autocast_mode.h>

namespace headroom {

AutocastScope::AutocastScope(const Options& options)
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

AutocastScope::~AutocastScope()
{
    if (at::autocast::decrement_nesting() == 0)
        at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, enabledBefore_);
    at::autocast::set_autocast_dtype(device_, dtypeBefore_);
    at::autocast::set_autocast_cache_enabled(cacheBefore_);
}

} // namespace headroom
