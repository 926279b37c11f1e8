// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <functional>
#include <string>
#include <string_view>

namespace headroom {

/// Checks that libtorch can compile this TorchScript code. Its parser and compiler recurse into nested code without a
/// limit, and a stack overflow ends the process. Errors (badInput) begin with `name`: code that is nested too deeply.
Status checkTorchScriptCode(std::string_view code, const std::string& name);

/// Runs `work`, which must not throw, in a thread with a stack that is large enough for all code that
/// checkTorchScriptCode() accepts.
Status runOnLargeStack(const std::function<void()>& work);

} // namespace headroom
