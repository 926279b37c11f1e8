// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <functional>
#include <string>
#include <string_view>

namespace headroom {

/// TorchScript code that libtorch's parser can take: it and the compiler behind it call themselves for everything that
/// is nested, without a limit, and end the process when the stack is used up. Generated code is nested a little; `name`
/// stands in the message about other code.
Status checkTorchScriptCode(std::string_view code, const std::string& name);

/// Runs `work` in a thread whose stack is large enough for code that checkTorchScriptCode() lets through. `work` must
/// not throw.
Status runOnLargeStack(const std::function<void()>& work);

} // namespace headroom
