// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/python/python_api.h"

/// Records steps for headroom_fit(). `asked` is JSON: {"gpu", "sizes": [{"batch", "seq", "accumulation"}]}, where a
/// size of 0 is the program's own. The function calls headroom_fit_recorded() once with `reply` before the function
/// returns. Returns 0, or 1 to stop the search.
using HeadroomRecordSteps = int (*)(const char* asked, void* reply);

/// Answers HeadroomRecordSteps: `answers` is JSON, a list in the order of the sizes, of {"step": file} or {"failure":
/// sentence}. The text is copied.
HEADROOM_PYTHON_API void headroom_fit_recorded(void* reply, const char* answers);

/// Receives what the search does next, as a few words. Returns 0, or 1 to stop the search.
using HeadroomFitProgress = int (*)(const char* next);

/// Searches for the sizes of a training step that run on a card, and for the fastest, as `torch-headroom fit` does
/// (core/fit/fit.h). `request` is JSON: {"gpus": [name], "batch", "seq": sizes as text, empty: the program's own,
/// "global_batch", "share", "beside": bytes, "settings": text or null, "size_name": the size's name for sentences,
/// "policies": text for the names of policy files}. `record` and `progress` are called in the caller's thread.
///
/// Returns the document of `torch-headroom fit --json`. Each series also has "findings", sentences. A recorded row
/// also has "remarks" of the step and, with a plan, "policy": the file of the plan's policy, beside the row's step.
/// Null after a failure.
HEADROOM_PYTHON_API const char* headroom_fit(const char* request, HeadroomRecordSteps record,
                                             HeadroomFitProgress progress);
