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

/// Plans a recorded step so that the training runs on the GPU `gpu`, as `torch-headroom plan --card --json` does, and
/// returns that command's document without `clock`; a card that runs no plan is an answer, with the status
/// `infeasible`. `budget` bytes limit what the allocator may reserve there, as the program's share of the GPU
/// (per_process_memory_fraction); 0: all that the GPU gives. `margin` of these bytes stay free. `settings` is a value
/// of PYTORCH_CUDA_ALLOC_CONF; null: the recorded program's. The policy of a plan that recomputes or offloads something
/// is written to the file `policy`. `wishes` is JSON: {"offload", "host_memory", "recompute", "pins"}, where
/// host_memory is in bytes, 0: any, and pins are texts as of `--pin`. Null after a failure.
HEADROOM_PYTHON_API const char* headroom_plan(const char* step, const char* gpu, std::int64_t budget,
                                              std::int64_t margin, const char* settings, const char* policy,
                                              const char* wishes);

/// Returns a number of bytes as text for people: "23.11 GiB". Valid in this thread until the next call.
HEADROOM_PYTHON_API const char* headroom_format_bytes(std::int64_t bytes);

/// Returns the name by which the known cards (headroom_devices()) have the GPU that CUDA describes so; empty: no such
/// card.
HEADROOM_PYTHON_API const char* headroom_name_of_gpu(const char* title, std::int64_t memory, int computeCapability,
                                                     int multiprocessors);

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
