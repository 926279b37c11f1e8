// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// Bytes of what the step makes and drops, and autograd saves for backward. Steps of equal sizes save equal bytes.
Bytes savedForBackward(const StepTrace& step);

/// Name of the setting (StepInfo::settings) with the most bytes that a forward outside of training steps took, such as
/// a forward before the optimizer is made.
constexpr std::string_view forwardsOutsideSetting = "bytes of forwards outside of steps";
Bytes forwardsOutside(const StepTrace& step); ///< bytes of that setting; 0: there was no such forward

/// Name of the setting (StepInfo::settings) that says which batch of the program's data loader is the longest, if the
/// recorded step is that of the longest batch. The text is for people.
constexpr std::string_view longestBatchSetting = "longest batch";

/// Bytes that earlier steps of the program saved for backward, if more than a thousandth more or less than
/// the recorded step. The program's steps are then of several sizes, and a later step may be larger.
struct EarlierSteps
{
    /// Name of the setting (StepInfo::settings) that has the two figures, separated by a space.
    static constexpr std::string_view setting = "bytes saved by earlier steps";
    Bytes least = 0;
    Bytes most = 0;
    Bytes own = 0; ///< savedForBackward() of the recorded step
    bool mayGrow = true; ///< false: the recorded step is that of the longest batch (longestBatchSetting)
};
std::optional<EarlierSteps> otherEarlierSteps(const StepTrace& step); ///< nullopt: no difference, or not known

/// Name of the setting (StepInfo::settings) that says which batch of the program's data loader is larger than all until
/// the recorded step. Steps after the recorded step may then be larger. The text is for people.
constexpr std::string_view largerBatchSetting = "larger batch to come";

/// Name of the setting (StepInfo::settings) that says with what an evaluation after the step was recorded
/// (StepTrace::betweenSteps). The text is for people.
constexpr std::string_view evaluationSetting = "evaluation";

/// Modules that saved tensors in earlier steps of the program and did not run in the recorded step, as layers that are
/// dropped at random. A module inside of a module that did not run does not count.
struct LeftOutModules
{
    /// Name of the setting (StepInfo::settings) that has the count and the first name, separated by a space.
    static constexpr std::string_view setting = "modules of earlier steps only";
    std::int64_t count = 0;
    std::string first;
};
std::optional<LeftOutModules> leftOutModules(const StepTrace& step); ///< as in the setting; nullopt: none, or not known
std::string leftOutText(const LeftOutModules& leftOut); ///< returns the begin of a sentence

/// The most memory between two steps, above the memory at the step's start.
struct MemoryBetweenSteps
{
    Bytes peak = 0;
    std::map<Bytes, std::size_t> blocks; ///< number of blocks at the peak that were allocated there, by size
};
MemoryBetweenSteps mostBetweenSteps(const StepTrace& step);

/// Least bytes that a step keeps beyond its end, or saves for nothing, for a remark.
inline constexpr Bytes leastGrowth = MiB;

/// Whether a tensor of this category may be the graph of a step, or a result.
constexpr bool isOfGraph(Category category)
{
    return category == Category::activation || category == Category::temporary || category == Category::gradient
        || category == Category::other;
}

/// Whether a tensor of this category may be the program's data, or a result.
constexpr bool isData(Category category)
{
    return category == Category::activation || category == Category::temporary || category == Category::input
        || category == Category::other;
}

/// Activations, temporaries and gradients that the program holds beyond the step's end (a loss that is summed up
/// holds the graph).
struct KeptActivations
{
    Bytes found = 0; ///< activations of earlier steps, when this step begins
    /// Of earlier steps, when this step ends, without one gradient of each parameter, and without what the forward
    /// reads and no line of this step makes anew.
    Bytes earlier = 0;
    Bytes gradients = 0; ///< part of `earlier`: more than one gradient of each parameter
    Bytes recurring = 0; ///< part of `earlier` that the forward does not read, from lines that make `more`
    Bytes more = 0; ///< what the step has made and leaves, without replacements of what was found
    bool inGraph = false; ///< at least half of `more` is saved by autograd when the step ends
    std::vector<StorageId> storages; ///< that the step found or made, and leaves; ascending
};
KeptActivations keptActivations(const StepTrace& step);

/// Returns what the program keeps between two steps, such as predictions of an evaluation: blocks of a size of which
/// the step finds those of at least two earlier periods, and reads none.
KeptActivations keptBetweenSteps(const StepTrace& step);

bool isGrowth(const KeptActivations& kept); ///< whether every step leaves more than the step before

/// Names of the modules in which the forward of a step saves tensors, modules around those modules included.
std::set<std::string> modulesThatSave(const StepTrace& step);

/// Compares the calls of a step with modulesThatSave() of the steps before. Returns the value of the setting
/// LeftOutModules::setting; empty if no module is left out.
std::string leftOutSetting(const StepTrace& step, const std::set<std::string>& before);

/// By storage: whether autograd holds a saved tensor when the step ends.
std::vector<bool> savedAtTheEnd(const StepTrace& step);

/// Whether most of what autograd holds when the step ends was used by a backward pass that kept the graph.
bool retainsGraph(const StepTrace& step);

} // namespace headroom
