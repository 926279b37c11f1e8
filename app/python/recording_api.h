// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/python/python_api.h"

/// Recording of training steps from Python. There is one recording in a process, since there is one simulated device.
///
/// What takes tensors are operators of torch.ops.torch_headroom, since a C interface without Python's headers cannot
/// see into a torch.Tensor; they are not recorded themselves:
///
///     registered(int[] modules, str[] names, Tensor[] tensors, bool[] buffers) -> ()
///                                                                          parameters and buffers of modules
///     inputs(Tensor[] tensors) -> ()                                       the batch
///     retype(Tensor[] tensors, int category) -> ()                         they are of this Category from here on
///     unsharded(int unit, str[] names, Tensor[] tensors, int category) -> () and a unit of FSDP holds them, a module
///     optimizer_state(Tensor[] tensors) -> ()                              what optimizers keep
///     enter(int module, Tensor[] arguments) -> int                         a module's forward begins; returns its call
///     held(int call, Tensor[] tensors, int[] places) -> ()                 what a checkpoint of it holds besides its
///                                                                          arguments (Recorder::addHeld())
///     leave(int call, Tensor[] results) -> ()                              and has ended
///     origin(str? path) -> ()                                              the module that compiled code comes from,
///                                                                          inside of the region; none: it has ended
///
/// The first three are called between headroom_recording_new() and headroom_recording_begin(), optimizer_state() also
/// before HeadroomInstant::optimizerEnd.
///
/// From now on steps are recorded on GPU number `device`, measured, instead of on the simulated one.
HEADROOM_PYTHON_API int headroom_measure(int device);

/// A new recording, after the one before: what was alive at the end of that keeps its category.
HEADROOM_PYTHON_API int headroom_recording_new();

/// Declares the next module, depth first; `parent` is -1 for the first. Numbers count from 0.
HEADROOM_PYTHON_API void headroom_recording_module(const char* fqn, const char* type, std::int64_t parent);

/// The step begins, in the thread that runs it.
HEADROOM_PYTHON_API int headroom_recording_begin();

/// Instants of a step, as headroom_recording_at() takes them.
enum HeadroomInstant : int {
    headroomForwardEnd,
    headroomBackwardEnd,
    headroomOptimizerBegin,
    headroomOptimizerEnd,
    headroomZeroGradBegin,
    headroomZeroGradEnd,
    headroomBackwardGraphBegin, ///< a backward pass with create_graph=True
    headroomBackwardGraphEnd,
    headroomOwnUpdateBegin, ///< the program has no optimizer: it changes the parameters itself
    headroomOwnUpdateEnd,
    headroomRecomputationBegin, ///< a checkpoint runs its region again
    headroomRecomputationEnd,
    headroomCompilationBegin, ///< torch.compile traces a function or compiles its graph
    headroomCompilationEnd,
};
HEADROOM_PYTHON_API void headroom_recording_at(int instant);

/// The step has ended, in the thread that began it; `info` is what is known of it, as JSON (StepInfo's keys). It is the
/// one that headroom_recording_write() writes.
HEADROOM_PYTHON_API int headroom_recording_finish(const char* info);

/// Stops a recording without a result; the step that was finished before stays.
HEADROOM_PYTHON_API void headroom_recording_discard();

/// On a real GPU: tracing, which costs time, ends until the next recording.
HEADROOM_PYTHON_API void headroom_recording_end_tracing();

/// Writes the finished step: a new file, then a rename.
HEADROOM_PYTHON_API int headroom_recording_write(const char* path);

/// What a report says of the finished step, as JSON, with the keys of `torch-headroom-record record --json`; null after
/// a failure.
HEADROOM_PYTHON_API const char* headroom_recording_summary();

/// The report itself: the lines that `torch-headroom record` prints of such a document.
HEADROOM_PYTHON_API const char* headroom_recording_text(const char* summary);
