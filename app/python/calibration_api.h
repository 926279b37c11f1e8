// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/python/python_api.h"

/// Calibrates from a step that was measured on a GPU, and adds the result to a calibration file
/// (core/cost/calibration.h).
HEADROOM_PYTHON_API int headroom_calibrate(const char* measured_step, const char* calibration_file);

/// Returns the times of a step file as JSON: {"step_ms", "recompute_ms", "phases": {PHASE: ms}, "ops": [[name, count,
/// ms]]}, for the 40 longest ops. With an empty `calibration_file`, times are the file's; otherwise the calibration
/// applies to the times of a simulated step. Null after a failure.
HEADROOM_PYTHON_API const char* headroom_step_times(const char* step, const char* calibration_file);
