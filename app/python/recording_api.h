// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/python/python_api.h"

/// Recording of training steps from Python. A process has a single recording, as a process has a single simulated
/// device.
///
/// Functions with tensors are operators of torch.ops.torch_headroom, since a C interface without Python's headers
/// cannot access a torch.Tensor. The operators themselves are not recorded:
///
///     registered(int[] modules, str[] names, Tensor[] tensors, bool[] buffers) -> ()
///                                                                          declares parameters and buffers of modules
///     wrapped(int[] modules, Tensor[] tensors) -> ()                       declares parameters that wrap others, such
///                                                                          as DTensors
///     inputs(Tensor[] tensors) -> ()                                       declares the batch
///     retype(Tensor[] tensors, int category) -> ()                         sets the Category from here on
///     retype_parts(Tensor tensor, int category) -> ()                      the same for the tensors inside of
///                                                                          `tensor`: implemented in Python
///     unsharded(int unit, str[] names, Tensor[] tensors, int category) -> ()
///                                                                          sets the Category, and the module that is
///                                                                          the FSDP unit of the tensors
///     optimizer_state(Tensor[] tensors) -> ()                              declares what optimizers keep
///     enter(int module, Tensor[] arguments) -> int                         begins a module's forward; returns the call
///     held(int call, Tensor[] tensors, int[] places) -> ()                 adds what a checkpoint of the call holds
///                                                                          besides the arguments (Recorder::addHeld())
///     not_held(int call, int[] places) -> ()                               takes back what held() added at `places`
///     leave(int call, Tensor[] results) -> ()                              ends a module's forward
///     origin(str? path) -> ()                                              sets the module of compiled code, inside of
///                                                                          the region; None: the region has ended
///
/// registered(), wrapped() and inputs() are called between headroom_recording_new() and headroom_recording_begin(),
/// optimizer_state() also before HeadroomInstant::optimizerEnd.
///
/// Records later steps on GPU number `device`, measured, instead of on the simulated device.
HEADROOM_PYTHON_API int headroom_measure(int device);

/// Records from now on what the program allocates on the simulated card outside of steps; what was noted is dropped.
HEADROOM_PYTHON_API void headroom_recording_watch();

/// Starts a new recording. Storages that were alive at the end of the previous recording keep the category.
HEADROOM_PYTHON_API int headroom_recording_new();

/// Declares the next module, depth first; `parent` is the number of the module's parent, -1 for the first. Numbers
/// count from 0.
HEADROOM_PYTHON_API void headroom_recording_module(const char* fqn, const char* type, std::int64_t parent);

/// Begins the step, in the thread that runs the step.
HEADROOM_PYTHON_API int headroom_recording_begin();

/// Moments of a step, for headroom_recording_at().
enum HeadroomInstant : int {
    headroomForwardEnd,
    headroomBackwardEnd,
    headroomOptimizerBegin,
    headroomOptimizerEnd,
    headroomZeroGradBegin,
    headroomZeroGradEnd,
    headroomBackwardGraphBegin, ///< a backward pass with create_graph=True
    headroomBackwardGraphEnd,
    headroomOwnUpdateBegin, ///< a program without an optimizer changes the parameters itself
    headroomOwnUpdateEnd,
    headroomRecomputationBegin, ///< a checkpoint recomputes a region
    headroomRecomputationEnd,
    headroomCompilationBegin, ///< torch.compile traces a function or compiles a graph
    headroomCompilationEnd,
    headroomSavesLeft, ///< before headroom_recording_begin(): Recorder::leaveSaves()
    headroomCompiledBackwardBegin, ///< compiled autograd runs a backward pass
    headroomCompiledBackwardEnd,
};
HEADROOM_PYTHON_API void headroom_recording_at(int instant);

/// Ends the step, in the thread that began the step. `info` holds the facts of the step as JSON (StepInfo's keys). The
/// step becomes the step that headroom_recording_write() writes.
HEADROOM_PYTHON_API int headroom_recording_finish(const char* info);

/// Stops a recording without a result; the previously finished step is kept.
HEADROOM_PYTHON_API void headroom_recording_discard();

/// Stops tracing on a real GPU until the next recording: tracing costs time.
HEADROOM_PYTHON_API void headroom_recording_end_tracing();

/// Adds a setting (StepInfo::settings) to the finished step.
HEADROOM_PYTHON_API int headroom_recording_add_setting(const char* name, const char* value);

/// Adds the evaluation after the finished step: the time from the step's end until now counts as a time between two
/// steps (StepTrace::betweenSteps).
HEADROOM_PYTHON_API int headroom_recording_add_evaluation();

/// Writes the finished step to a new file, which is then renamed to `path`.
HEADROOM_PYTHON_API int headroom_recording_write(const char* path);

/// Returns the report of the finished step as JSON, with the keys of `torch-headroom-record record --json`; null after
/// a failure.
HEADROOM_PYTHON_API const char* headroom_recording_summary();

/// Returns the report as text: the lines that `torch-headroom record` prints for this JSON.
HEADROOM_PYTHON_API const char* headroom_recording_text(const char* summary);

/// Records from now on which line of the program runs each op and allocates each block. Frames of files that begin with
/// `ownFolder` are left out, and so are frames of Python's own frozen modules.
HEADROOM_PYTHON_API void headroom_record_source_lines(const char* ownFolder);
