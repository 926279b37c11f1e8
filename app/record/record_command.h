// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/model/step_runner.h"

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace headroom {

/// The command line of `torch-headroom-record record`, as given.
struct RecordOptions
{
    std::string model;
    std::string output;
    std::string device = "sim";
    std::string gpu = "h100-80gb";
    std::int64_t batch = 0;
    std::int64_t sequence = 0;
    std::string dtype; ///< empty: the model's own
    bool autocast = false;
    std::string optimizer = "adam";
    double momentum = 0;
    std::string loss; ///< empty: what suits the model
    std::string lifetimes; ///< empty: the model's own
    std::vector<std::string> settings; ///< KEY=VALUE
    std::vector<std::string> inputs; ///< NAME=SHAPE[:DTYPE]
    bool holdOutput = false;
    std::string policy; ///< file of the modules to checkpoint; empty: none
    std::string memoryBudget; ///< of verify: share of what ops save; empty: no plan for ops
    std::string opsPlan; ///< of verify: a file with a plan for ops; empty: none
    std::string solver = "dp"; ///< of the plan for memoryBudget
    std::string runtime = "flops";
    std::string opTimes; ///< file of the ops' times; empty: those of the step
    bool monotone = false; ///< that plan is the one that takes least at its peak
    bool json = false;
    bool progress = false;
};

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

/// Options that say which step is run, for every command that runs one.
void addStepOptions(CLI::App& command, RecordOptions& options);
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

/// Declares the subcommand's options; parsing fills `options`.
CLI::App* addRecordCommand(CLI::App& app, RecordOptions& options);

/// Opens the model, runs the step, writes the step file and prints what it holds. Nothing is written on an error.
/// `watch` is told how far it is; 1 is done: the step file is in its place.
Status runRecord(const RecordOptions& options, const ProgressReport& watch);

} // namespace headroom
