// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/record/record_options.h"
#include "core/base/atomic_write.h"
#include "core/base/error.h"
#include "core/model/step_runner.h"

#include <iosfwd>
#include <memory>

namespace headroom {

/// The device of a recording: the simulated GPU, or the CPU or a GPU (the step is measured).
enum class RecordingDevice { sim, cpu, cuda };

/// The step that the options describe.
struct StepRequest
{
    RecordingDevice recordingDevice = RecordingDevice::sim;
    ModelRequest model;
    StepRunner::Options step;
    DeviceSpec gpu;
    StepInfo info;
};

/// Makes the StepRequest of a command's options. Errors (badInput): no model, an unknown device, options that do not go
/// together.
Result<StepRequest> readStepRequest(const RecordOptions& options);

/// Opens the device of the step: sets request.model.device, and request.step.real for a real device. Small tensors on
/// the simulated GPU with values that follow from the model's integer buffers (counters, masks) have their true values,
/// so that dependent control flow is right. From here on this process reads only the model's file and the files
/// in `readable` (app/record/confinement.h). Errors (noDevice): no GPU can be used.
Status openDevice(StepRequest& request, const std::vector<std::string>& readable);

/// Prints the names of the known GPUs.
void listGpus();

/// A ProgressReport that calls `watch` and, if `wanted`, writes each report to `stream` as a line of JSON for the
/// window.
ProgressReport progressTo(std::ostream& stream, bool wanted, const ProgressReport& watch);

/// A recording with valid options and a writable output.
struct RecordJob
{
    RecordOptions options;
    StepRequest request;
    std::shared_ptr<AtomicFile> file; ///< of the step; to be committed when complete
};
/// Errors (badInput): as for readStepRequest(); an output that cannot be written.
Result<RecordJob> prepareRecord(const RecordOptions& options);

/// Opens the model, runs the step, writes it into job.file and prints a summary. Calls `watch` with the progress; at 1
/// the file is complete, and not before. Errors: a model that cannot be opened, a step that fails, a file that cannot
/// be written.
Status runRecord(RecordJob& job, const ProgressReport& watch);

} // namespace headroom
