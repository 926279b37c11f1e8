// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

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
    explicit AutocastScope(const Options& options);
    ~AutocastScope();
    AutocastScope(const AutocastScope&) = delete;
    AutocastScope& operator=(const AutocastScope&) = delete;

private:
    c10::DeviceType device_;
    bool enabledBefore_;
    bool cacheBefore_;
    c10::ScalarType dtypeBefore_;
};

} // namespace headroom
