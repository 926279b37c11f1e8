// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <string>

namespace headroom {

struct StepTrace;

/// Returns an error unless the step was recorded to its end: it says what ended it, what follows from that
/// (`consequence`, as in "no plan can be made of it") and what to do.
Status checkWhole(const StepTrace& step, const std::string& consequence);

} // namespace headroom
