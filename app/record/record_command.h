// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/record/record_options.h"
#include "core/base/error.h"
#include "core/model/step_runner.h"

#include <iosfwd>

namespace headroom {

/// Where a step runs: on the simulated GPU, or measured on the CPU or a GPU.
enum class Place { sim, cpu, cuda };

/// The step that the options ask for.
struct StepRequest
{
    Place place = Place::sim;
    ModelRequest model;
    StepRunner::Options step;
    DeviceSpec gpu;
    StepInfo info;
};

/// The step that the options of a command ask for.
Result<StepRequest> readStepRequest(const RecordOptions& options);

/// Makes the simulated GPU ready in this thread, and request.model.device it. Small tensors whose values follow from
/// the model's own (its integer buffers, what it counts and masks) have them there, so that what depends on them is
/// true.
void simulateDevice(StepRequest& request);

/// Makes the device ready on which the step is going to run: request.step.real, where it is a real one, and
/// request.model.device. Errors (noDevice): no GPU can be used.
Status openDevice(StepRequest& request);

/// Prints the names of the known GPUs.
void listGpus();

/// Tells `watch`, and when wanted writes one JSON object a line: a window that runs this program shows them.
ProgressReport progressTo(std::ostream& stream, bool wanted, const ProgressReport& watch);

/// Opens the model, runs the step, writes the step file and prints what it holds. Nothing is written on an error.
/// `watch` is told how far it is; 1 is done: the step file is in its place.
Status runRecord(const RecordOptions& options, const ProgressReport& watch);

} // namespace headroom
