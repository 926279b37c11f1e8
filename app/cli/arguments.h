// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/cost/step_times.h"
#include "core/plan/plan.h"
#include "core/policy/card.h"
#include "core/profile/import.h"
#include "core/sac/module_info.h"
#include "core/snapshot/import.h"
#include "core/trace/step_trace.h"

#include <filesystem>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace headroom::cli {

/// Returns the number that the whole of `text` is, also infinite or NaN; nullopt: `text` is no number.
std::optional<double> parseNumber(std::string_view text);

/// Returns the integer value of an option. Error (badInput): names the option, the text and the range.
Result<int> parseInteger(std::string_view option, std::string_view text, int least, int most);

/// Returns the value of an option that is a share, 0 to 1. Error (badInput): names the option, the text and the range.
Result<double> parseFraction(std::string_view option, std::string_view text);

/// Returns the module with this name. Error (badInput): an unknown name; the sentence has the most similar name.
Result<ModuleId> findModule(const StepTrace& trace, std::string_view fqn);

/// Whether one of the files is of this kind, or is missing: the reader of the file says so.
bool isAny(std::span<const std::string> files, bool (*kind)(const std::filesystem::path&));

/// Refuses an option that would be ignored without one of `others`. Of one other, CLI11's needs() says the same.
void needsOneOf(CLI::Option* option, const std::vector<CLI::Option*>& others);
/// Error (badInput): one of these options was given and would be ignored. `why` follows the name of the option.
Status refuse(const CLI::App& command, std::initializer_list<const char*> options, const std::string& why);

/// Adds --time-model kernel|roofline, --calibration auto|none|FILE, and, if `withCard`, --gpu NAME and --topology. A
/// command that has another option --gpu passes false.
void addTimeArguments(CLI::App& command, TimeChoice& choice, bool withCard = true);

/// Refuses the options of addTimeArguments() beside `document`, which has times of its own.
void excludeTimes(CLI::App& command, CLI::Option* document);

/// Adds --measured FILE.
void addMeasuredArgument(CLI::App& command, std::string& file);

/// Adds --profile-step N.
void addProfileArgument(CLI::App& command, std::string& step);
/// Error (badInput): as parseInteger(); none of `files` is a trace.
Result<ProfileRequest> profileRequest(const std::string& step, std::initializer_list<std::string> files);

/// The arguments that select a part of a memory snapshot: --device, --from and --to, as given.
struct SnapshotArguments
{
    std::string device; ///< empty: the device with most events
    std::string from; ///< ms after the first event; empty: the first event
    std::string to; ///< ms after the first event; empty: the last event
    bool any() const { return !device.empty() || !from.empty() || !to.empty(); }
};
void addSnapshotArguments(CLI::App& command, SnapshotArguments& arguments);
/// Error (badInput): a device or a time that is no such number; none of `files` is a snapshot. The sentence names the
/// option.
Result<ImportRequest> importRequest(const SnapshotArguments& arguments, std::initializer_list<std::string> files);

/// The files that a command reads as a step: also memory snapshots, and with `any` traces of torch.profiler.
enum class StepKind { recorded, snapshot, any };

/// The step of `file` with the chosen op times. Prints and fails as readStep(). Error: no such times.
Result<StepTracePtr> withTimesOf(StepTracePtr step, const std::string& file, const TimeChoice& times);
/// Reads a step with the chosen op times; of a trace, the step of `profile`. Prints a note on stderr if the times of
/// ops or of the CPU were measured. Error: the file cannot be read, or has no such times; the sentence names the file.
Result<StepTracePtr> readStep(const std::string& file, const TimeChoice& times, StepKind kind = StepKind::recorded,
                              const ProfileRequest& profile = {});

/// The card for training: --card and --settings, as given.
struct CardArguments
{
    std::string card; ///< a GPU's name or a size; empty: no card is given
    std::optional<std::string> settings; ///< as in PYTORCH_CUDA_ALLOC_CONF; nullopt: the recorded program's
    std::string margin; ///< a size; empty: none
};
/// Adds --card NAME|SIZE, with the description, --settings and --margin. Returns the first.
CLI::Option* addCardArguments(CLI::App& command, CardArguments& arguments, const std::string& description);
/// Why --card is refused for a plan of a ModuleInfo or of several ranks that were not recorded.
constexpr const char* cardNeedsStep = "--card runs the caching allocator on a recorded step: expected a step file, and "
                                      "no --formulation piecewise, --world-size or --trainer";
/// Prints what answers for a card rest on (CardRun::assumptions), each once, in lines behind the title `Assumed`.
void printAssumptions(std::span<const std::string> sentences, std::ostream& out);
/// Returns the card for a step; nullopt: no card is given. Error: as cardFor(); a wrong --margin.
Result<std::optional<Card>> cardOf(const CardArguments& arguments, const StepTrace& step);

/// How training runs on a card: "5.01 GiB left" or "out of memory", as the cell of a table.
std::string runCell(const CardRun& run);

/// Whether plans may send tensors to the host, as given.
struct OffloadArguments
{
    bool offload = false;
    std::string hostMemory; ///< with `offload`, a size; empty: any
    std::string hostBandwidth; ///< GB/s to the host, or to and from the host with a comma; empty: the GPU's
};
/// Adds --offload, with the description, --host-memory and --host-bandwidth. Returns the first. `others` may send
/// tensors to the host without --offload.
CLI::Option* addOffloadArguments(CLI::App& command, OffloadArguments& arguments, const std::string& description,
                                 std::vector<CLI::Option*> others = {});
/// The bytes of --host-memory; 0: any. Error (badInput): no size.
Result<Bytes> hostMemoryOf(const OffloadArguments& arguments);
/// The step with the rates of --host-bandwidth. Error (badInput): no such rates.
Result<StepTracePtr> withHostBandwidth(const StepTracePtr& step, const OffloadArguments& arguments);

/// The arguments that `plan` and `frontier` share.
struct PlanArguments
{
    std::string stepFile;
    std::string moduleInfoFile;
    std::string formulation; ///< empty: `exact` for a step file, `piecewise` for a ModuleInfo file
    std::string worldSize = "1";
    std::vector<std::string> acUnits;
    std::vector<std::string> fsdpUnits;
    std::vector<std::string> pins; ///< FQN=save, FQN=recompute or FQN=offload
    OffloadArguments toHost;
    bool noRecompute = false;
    TimeChoice times;
    bool json = false;
};
void addPlanArguments(CLI::App& command, PlanArguments& arguments);

/// Returns whether the formulation is `exact`, with all memory on the device, and not `piecewise`, PyTorch's.
bool plansExactly(const PlanArguments& arguments);

/// Returns in words what memory a budget and a peak count in the formulation `exact` or `piecewise`.
std::string countedMemory(bool exact);

/// Returns the remark on a step that was recorded with the script's own checkpoints, with a recomputation of `ms`.
/// Lines end in `lineEnd`.
std::string ownCheckpoints(double ms, const std::string& lineEnd);

/// The input of a plan: a recorded step, or only a ModuleInfo.
struct PlanSource
{
    StepTracePtr trace; ///< null with --module-info
    ModuleInfoPtr info;
};
/// Reads the input. Error (badInput): contradictory options, or a file that cannot be read or planned.
Result<PlanSource> readPlanSource(const PlanArguments& arguments);

/// Returns the request, without a budget. Error (badInput): a world size or pin of a wrong form, or contradictory pins.
Result<PlanRequest> planRequest(const PlanArguments& arguments);
/// Returns the request with world size 1 if the step is distributed: the trace already has the memory of a single rank.
PlanRequest asRecorded(PlanRequest request, const PlanSource& source);

} // namespace headroom::cli
