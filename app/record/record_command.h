// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/record/record_options.h"
#include "core/base/error.h"
#include "core/model/step_runner.h"

#include <iosfwd>

namespace headroom {

/// The device of a recording: the simulated GPU, or the CPU or a GPU, on which the step is measured.
enum class Place { sim, cpu, cuda };

/// The step that the options describe.
struct StepRequest
{
    Place place = Place::sim;
    ModelRequest model;
    StepRunner::Options step;
    DeviceSpec gpu;
    StepInfo info;
};

/// Makes the StepRequest of a command's options.
Result<StepRequest> readStepRequest(const RecordOptions& options);

/// Starts the simulated GPU in this thread and sets request.model.device to it. Small tensors with values that follow
/// from the model's integer buffers (counters, masks) have their true values there, so that control flow that depends
/// on them is right.
void simulateDevice(StepRequest& request);

/// Opens the device of the step: sets request.model.device, and request.step.real for a real device. Errors (noDevice):
/// no GPU can be used.
Status openDevice(StepRequest& request);

/// Prints the names of the known GPUs.
void listGpus();

/// A ProgressReport that calls `watch` and, if `wanted`, writes each report to `stream` as one line of JSON for the
/// window.
ProgressReport progressTo(std::ostream& stream, bool wanted, const ProgressReport& watch);

/// Opens the model, runs the step, writes the step file and prints a summary. On an error nothing is written. Calls
/// `watch` with the progress; at 1 the step file is complete.
Status runRecord(const RecordOptions& options, const ProgressReport& watch);

} // namespace headroom
