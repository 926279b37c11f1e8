// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/roofline.h"
#include "core/model/source.h"
#include "core/record/module_call.h"
#include "core/record/optimizer.h"
#include "core/record/recorder.h"

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace headroom {

/// How the training loop gets the loss from the model's results.
enum class Loss {
    automatic, ///< the first floating-point result: as it is if it is a differentiable scalar, otherwise its sum
    sum, ///< loss = output.sum()
    mean, ///< loss = output.mean()
    output, ///< loss = output, a single number
};
std::string_view lossName(Loss loss);
Result<Loss> parseLoss(std::string_view name); ///< "sum", "mean", "output"; other names are errors (badInput)

/// Reports the progress of a recording: the current stage, and the share of work done before it (0 to 1).
using ProgressReport = std::function<void(std::string_view stage, double done)>;

/// Runs training steps of a model as this Python loop does:
///
///     loss = model(x).sum()          # or, holding the output: output = model(x); loss = output.sum()
///     loss.backward(); del loss
///     optimizer.step()
///     optimizer.zero_grad()
///
/// With an accumulation of N micro-batches the first two lines run N times before the optimizer.
///
/// In the second form `output` stays alive until the next forward has returned, as in many training loops.
class StepRunner
{
public:
    struct Options
    {
        OptimizerChoice optimizer;
        Loss loss = Loss::automatic;
        bool autocast = false; ///< forward and loss under torch.autocast(dtype=torch.bfloat16)
        bool holdOutput = false;
        std::int64_t accumulation = 1; ///< forward and backward passes before the optimizer
        std::shared_ptr<ModuleCallHandler> moduleCalls = nullptr; ///< a policy, applied in forward
        std::shared_ptr<RealDevice> real = nullptr; ///< device of the model; null: the simulated device
    };
    StepRunner(ModelSource& model, const Options& options);

    /// Runs a step without a recording. Errors: badInput of the model, or internal for libtorch's exceptions.
    Status run();
    /// Runs only forward and backward, and keeps the gradients. Errors as run().
    Status forwardAndBackward();
    /// Runs a first step, which creates the optimizer's state, then records a second one. The caller sets in `info` the
    /// model, torch, optimizer and settings; record() sets the other fields. Errors as run().
    Result<StepTracePtr> record(StepInfo info, const DeviceSpec& device, const ProgressReport& progress);
    /// Returns the step up to the failed allocation if record() failed because a real device ran out of memory;
    /// otherwise null. A failed first step has run again with a recording.
    const StepTracePtr& interrupted() const noexcept { return interrupted_; }

private:
    void firstStep(const StepInfo& info, const DeviceSpec& device, const ProgressReport& progress);
    Result<StepTracePtr> recorded(StepInfo info, const DeviceSpec& device, const ProgressReport& progress);
    void step(Recorder* recorder, const ProgressReport& progress, double begin, double share);
    void microBatch(Recorder* recorder, const ProgressReport& report);
    at::Tensor forward();
    at::Tensor outputAndLoss();
    at::Tensor lossOf(const std::vector<at::Tensor>& outputs);

    ModelSource& model_;
    Options options_;
    std::unique_ptr<Optimizer> optimizer_;
    at::DeviceType device_ = at::kCPU;
    DType parameterDtype_ = DType::float32;
    Loss usedLoss_ = Loss::automatic; ///< the loss of the last step
    std::vector<at::Tensor> output_; ///< the loop's variable `output`, if any
    StepTracePtr interrupted_;
};

} // namespace headroom
