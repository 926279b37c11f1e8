// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <string>

namespace headroom {

struct StepTrace;

/// Returns an error unless the step was recorded to its end: the error says what ended the step, the
/// `consequence` ("no plan can be made of it") and what to do.
Status checkWhole(const StepTrace& step, const std::string& consequence);

} // namespace headroom
