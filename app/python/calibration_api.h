// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/python/python_api.h"

/// Learns from a step that was measured on a GPU and adds it to a calibration file (core/cost/calibration.h).
HEADROOM_PYTHON_API int headroom_calibrate(const char* measured_step, const char* calibration_file);

/// Times of a step file as JSON: {"step_ms", "recompute_ms", "phases": {PHASE: ms}, "ops": [[name, count, ms]]}, the 40
/// longest ops. `calibration_file` empty: times as they are in the file; else those of a simulated step calibrated.
/// Null after a failure.
HEADROOM_PYTHON_API const char* headroom_step_times(const char* step, const char* calibration_file);
