// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/cost/step_times.h"
#include "core/plan/plan.h"
#include "core/profile/import.h"
#include "core/sac/module_info.h"
#include "core/trace/step_trace.h"

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace headroom::cli {

/// The integer value of an option. Errors (badInput) name the option, the text and the range.
Result<int> parseInteger(std::string_view option, std::string_view text, int least, int most);

/// The value of an option that is a share, 0 to 1.
Result<double> parseFraction(std::string_view option, std::string_view text);

/// The module with this name. The error names the nearest one that exists.
Result<ModuleId> findModule(const StepTrace& trace, std::string_view fqn);

/// Whether `fqn` is in `known`. The error names the nearest one that is.
Status checkModuleName(std::string_view fqn, const std::vector<std::string>& known);

/// Adds --time-model kernel|roofline, --calibration auto|none|FILE, and --gpu NAME unless the command has another
/// option of that name.
void addTimeArguments(CLI::App& command, TimeChoice& choice, bool withCard = true);

/// Adds --measured FILE.
void addMeasuredArgument(CLI::App& command, std::string& file);

/// Adds --profile-step N.
void addProfileArgument(CLI::App& command, std::string& step);
Result<ProfileRequest> profileRequest(const std::string& step);

/// The files that a command reads as a step; `any` includes memory snapshots and traces of torch.profiler.
enum class StepKind { recorded, any };

/// Reads a step with the chosen op times. Prints a message on stderr if they are a calibration's, or the roofline's
/// because the file has no signatures.
Result<StepTracePtr> readStep(const std::string& file, const TimeChoice& times, StepKind kind = StepKind::recorded);

/// The arguments that `plan` and `frontier` share.
struct PlanArguments
{
    std::string stepFile;
    std::string moduleInfoFile;
    std::string formulation; ///< empty: `exact` for a step file, `piecewise` for a ModuleInfo file
    std::string worldSize = "1";
    std::vector<std::string> acUnits;
    std::vector<std::string> fsdpUnits;
    std::vector<std::string> pins; ///< FQN=save or FQN=recompute
    TimeChoice times;
    bool json = false;
};
void addPlanArguments(CLI::App& command, PlanArguments& arguments);

/// True: the formulation is `exact`, with all memory on the device. False: `piecewise`, PyTorch's formulation.
bool plansExactly(const PlanArguments& arguments);

/// The memory that a budget and a peak count, as text: "parameters, gradients and activations, as PyTorch's sac_milp
/// does", or everything.
std::string countedMemory(bool exact);

/// The remark on a step that was recorded with checkpoints of its own, which recomputed for `ms`; lines end in
/// `lineEnd`.
std::string ownCheckpoints(double ms, const std::string& lineEnd);

/// The input of a plan: a recorded step, or only its ModuleInfo.
struct PlanSource
{
    StepTracePtr trace; ///< null with --module-info
    ModuleInfoPtr info;
};
Result<PlanSource> readPlanSource(const PlanArguments& arguments);

/// The request, without its budget.
Result<PlanRequest> planRequest(const PlanArguments& arguments);
/// The request with world size 1 for a distributed step, whose trace already has the memory of one rank.
PlanRequest asRecorded(PlanRequest request, const PlanSource& source);

} // namespace headroom::cli
