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

/// Whole number of an option. Errors name the option, the text and the range.
Result<int> parseInteger(std::string_view option, std::string_view text, int least, int most);

/// Share 0..1 of an option.
Result<double> parseFraction(std::string_view option, std::string_view text);

/// The module with this name. The error names the nearest one that exists.
Result<ModuleId> findModule(const StepTrace& trace, std::string_view fqn);

/// The same for a list of names.
Status checkModuleName(std::string_view fqn, const std::vector<std::string>& known);

/// Adds --time-model kernel|roofline, --gpu NAME (where it is not another option of the command) and --calibration
/// auto|none|FILE.
void addTimeArguments(CLI::App& command, TimeChoice& choice, bool withCard = true);

/// Adds --measured FILE.
void addMeasuredArgument(CLI::App& command, std::string& file);

/// Adds --profile-step N.
void addProfileArgument(CLI::App& command, std::string& step);
Result<ProfileRequest> profileRequest(const std::string& step);

/// What a command takes for a step; `any` is also a memory snapshot or a trace of torch.profiler.
enum class StepKind { recorded, any };

/// Reads a step with the times that are asked for; says on stderr when they are a calibration's, or the roofline's for
/// want of shapes.
Result<StepTracePtr> readStep(const std::string& file, const TimeChoice& times, StepKind kind = StepKind::recorded);

/// What `plan` and `frontier` have in common on the command line.
struct PlanArguments
{
    std::string stepFile;
    std::string moduleInfoFile;
    std::string formulation; ///< empty: exact for a step file, piecewise for a ModuleInfo document
    std::string worldSize = "1";
    std::vector<std::string> acUnits;
    std::vector<std::string> fsdpUnits;
    std::vector<std::string> pins; ///< FQN=save or FQN=recompute
    TimeChoice times;
    bool json = false;
};
void addPlanArguments(CLI::App& command, PlanArguments& arguments);

/// Is it `exact`, where memory is everything on the device, or `piecewise`, PyTorch's question?
bool plansExactly(const PlanArguments& arguments);

/// What a budget and a peak count: "parameters, gradients and activations, as PyTorch's sac_milp does", or everything.
std::string countedMemory(bool exact);

/// What to know of a step that ran with checkpoints of its own, for `ms` of recomputation; in lines.
std::string ownCheckpoints(double ms, const std::string& lineEnd);

/// What is planned for: a recorded step, or only its ModuleInfo.
struct PlanSource
{
    StepTracePtr trace; ///< null with --module-info
    ModuleInfoPtr info;
};
Result<PlanSource> readPlanSource(const PlanArguments& arguments);

/// The request, without its budget.
Result<PlanRequest> planRequest(const PlanArguments& arguments);
/// A rank of a distributed step holds its share already: nothing of it is divided again.
PlanRequest asRecorded(PlanRequest request, const PlanSource& source);

} // namespace headroom::cli
