// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <functional>
#include <string>
#include <string_view>

namespace headroom {

/// Checks that libtorch's parser can take this TorchScript code. The parser and the compiler recurse for everything
/// nested, without a limit, and a stack overflow ends the process. Generated code is nested little; code that is nested
/// too deeply is an error, whose message has `name`.
Status checkTorchScriptCode(std::string_view code, const std::string& name);

/// Runs `work` in a thread whose stack is large enough for code that checkTorchScriptCode() accepts. `work` must not
/// throw.
Status runOnLargeStack(const std::function<void()>& work);

} // namespace headroom
