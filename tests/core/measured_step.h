// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <functional>
#include <string>

namespace headroom {

/// The step as if it had been measured on `device`: each op took the ms that `ms` says of it, and ops for which `other`
/// is true are others there. Everything else is the same.
StepTracePtr makeMeasuredStep(
    const StepTracePtr& step, const std::string& device, const std::function<double(OpId)>& ms,
    const std::function<bool(OpId)>& other = [](OpId) { return false; });

/// A measured step of one op, which makes 2 MiB beside parameters of 8 MiB, on a GPU where something else than PyTorch
/// holds 300 MiB.
StepTracePtr makeStepBesideOthers();

} // namespace headroom
