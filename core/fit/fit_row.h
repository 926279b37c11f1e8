// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/fit/fit.h"
#include "core/policy/step_planner.h"
#include "core/predict/step_model.h"

#include <memory>
#include <optional>
#include <vector>

namespace headroom {

/// The size that is recorded for a step: more than two micro-batches take the memory of two, and as much time each.
StepSize recordedSize(StepSize size);

/// Error (badInput): what other programs take of the GPU (FitRequest::share, `beside`) leaves nothing of `capacity`.
Status checkOthers(const FitRequest& request, const DeviceSpec& gpu, Bytes capacity);

/// The GPUs of the request. Errors (badInput): no GPU, an unknown name, settings that the allocator does not know, and
/// as checkOthers().
Result<std::vector<DeviceSpec>> gpusOf(const FitRequest& request);

/// The number of equal forward passes before the optimizer, 1 if passes differ, as those of a GAN's two models.
std::int64_t microBatchesOf(const StepTrace& step);

/// Whether a recorded step has so many samples, in all micro-batches or in each; `isSequence`: tokens in a sample.
bool hasSize(const StepTrace& step, std::int64_t size, bool isSequence);

/// Error (badInput): the recorded step has less than that, as where the program's data end.
Status checkSize(const StepTrace& step, std::int64_t size, bool isSequence);

/// The time of the recorded step under a plan that recomputes for `recomputeMs`: StepClock, or without a clock the sum
/// of the ops' times.
double stepMsOf(const StepModel& model, const CheckpointPlan& regions, double recomputeMs);

/// Returns the row with its step timed on the GPU, and the run without a plan. The step was recorded for a GPU that
/// stands for `gpu`. An error becomes the row's failure.
FitRow rowWithoutPlan(const FitRequest& request, const DeviceSpec& gpu, FitRow row, const std::stop_token& stop);

using StepPlannerPtr = std::shared_ptr<const StepPlanner>;

/// The bytes that the GPU has for a step, beside the plan of the least memory.
struct PlanRoom
{
    Bytes left = 0; ///< below 0: no plan has room
    StepPlannerPtr planner; ///< of the step; null: dropped
};

/// The room of a plan by the sum of bytes: necessary for a plan that runs, and found much quicker. nullopt: no plan can
/// be made.
std::optional<PlanRoom> roomForPlan(const FitRequest& request, const DeviceSpec& gpu, const FitRow& row,
                                    const std::stop_token& stop);

/// Adds the best plan for the GPU (planForCard()) and the run with it. An error becomes the row's failure. `planner`:
/// of a step that is equal to the row's; null: not made yet.
void addPlan(const FitRequest& request, const DeviceSpec& gpu, FitRow& row, StepPlannerPtr planner,
             const std::stop_token& stop);

/// Gives a row that does not run the plan of another row, whose step has the same structure, if `row` runs with the
/// plan.
void tryPlanOf(const FitRequest& request, const DeviceSpec& gpu, const FitRow& other, FitRow& row,
               const std::stop_token& stop);

} // namespace headroom
