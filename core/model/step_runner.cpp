// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/step_runner.h"

#include "core/device/unsupported.h"
#include "core/model/autocast_scope.h"
#include "core/record/op_cost.h"

#include <c10/util/Exception.h>

#include <new>

namespace headroom {
namespace {

/// The exception for bad input that is found while the step runs, such as a loss of more than a number.
struct StepRefused
{
    std::string message;
};

/// Runs `work`, and converts libtorch's exceptions to Errors of a sentence.
template <class Work>
auto guarded(Work&& work) -> decltype(work())
{
    try {
        return work();
    } catch (const StepRefused& refused) {
        return badInput(refused.message);
    } catch (const ModuleCallError& refused) {
        return badInput(refused.what());
    } catch (const sim::CannotSimulate& error) {
        return badInput(error.what_without_backtrace());
    } catch (const ModelFailed& failed) {
        return badInput(failed.what());
    } catch (const c10::OutOfMemoryError& error) {
        return badInput("the step does not fit on the device: " + firstLine(error)
                        + "; make the batch smaller, or checkpoint as torch-headroom plan says");
    } catch (const c10::Error& error) {
        const std::string message = firstLine(error);
        if (saysOutOfMemory(message))
            throw std::bad_alloc();
        return Error{ErrorKind::internal, "the step failed in libtorch: " + message};
    }
}

std::string shape(const at::Tensor& tensor)
{
    std::string text;
    for (const std::int64_t size : tensor.sizes())
        text += (text.empty() ? "" : " x ") + std::to_string(size);
    return text;
}

} // namespace

std::string_view lossName(Loss loss)
{
    return loss == Loss::sum ? "sum" : loss == Loss::mean ? "mean" : loss == Loss::output ? "output" : "automatic";
}

Result<Loss> parseLoss(std::string_view name)
{
    for (const Loss loss : {Loss::sum, Loss::mean, Loss::output})
        if (name == lossName(loss))
            return loss;
    return badInput("unknown loss '" + std::string(name) + "'; known are sum, mean, output");
}

StepRunner::StepRunner(ModelSource& model, const Options& options)
    : model_(model)
    , options_(options)
    , optimizer_(Optimizer::make(options.optimizer, trainableParameters(model.tree())))
{
    for (const at::Tensor& parameter : trainableParameters(model.tree())) {
        device_ = parameter.device().type();
        parameterDtype_ = dtypeOf(parameter.scalar_type());
        break;
    }
}

Status StepRunner::run()
{
    return guarded([&]() -> Status {
        step(nullptr, {}, 0, 1);
        return {};
    });
}

Status StepRunner::forwardAndBackward()
{
    return guarded([&]() -> Status {
        forward().backward();
        return {};
    });
}

Result<StepTracePtr> StepRunner::record(StepInfo info, const DeviceSpec& device, const ProgressReport& progress)
{
    return guarded([&]() -> Result<StepTracePtr> {
        if (options_.real)
            options_.real->startTracing(); // the first step warms the trace up
        firstStep(info, device, progress);
        info.steps = 2;
        return recorded(std::move(info), device, progress);
    });
}

Result<StepTracePtr> StepRunner::recorded(StepInfo info, const DeviceSpec& device, const ProgressReport& progress)
{
    info.autocast = options_.autocast;
    info.loss = lossName(usedLoss_);
    info.lifetimes = lifetimesName(model_.lifetimes());
    info.dtype = dtypeName(parameterDtype_);
    info.holdOutput = options_.holdOutput;
    info.batch = model_.batch();
    info.sequence = model_.sequence();
    info.dimensions = model_.dimensions();
    Recorder recorder(std::move(info), device, options_.real);
    recorder.setModel(model_.tree());
    for (const at::Tensor& input : model_.inputs())
        recorder.addInput(input);
    for (const at::Tensor& state : optimizer_->state())
        recorder.addState(state);
    for (const at::Tensor& output : output_)
        recorder.addHeldResult(output);
    recorder.begin();
    try {
        step(&recorder, progress, 0.4, 0.5);
    } catch (const c10::OutOfMemoryError&) {
        if (const auto partial = recorder.finish())
            interrupted_ = *partial;
        throw;
    }
    return recorder.finish();
}

void StepRunner::firstStep(const StepInfo& info, const DeviceSpec& device, const ProgressReport& progress)
{
    try {
        step(nullptr, progress, 0, 0.4);
    } catch (const sim::CannotSimulate&) {
        // The step runs once more with a recording, to add the module to the message.
        Recorder recorder({}, device);
        recorder.setModel(model_.tree());
        recorder.begin();
        step(&recorder, {}, 0, 1);
        throw;
    } catch (const c10::OutOfMemoryError&) {
        if (!options_.real)
            throw;
        // The step runs once more with a recording, to show where the memory ended.
        optimizer_->zeroGrad();
        output_.clear();
        StepInfo first = info;
        first.steps = 1;
        (void)recorded(std::move(first), device, progress);
        throw;
    }
}

void StepRunner::step(Recorder* recorder, const ProgressReport& progress, double begin, double share)
{
    const auto report = [&](std::string_view stage, double done) {
        if (progress)
            progress(stage, begin + share * done);
    };
    for (std::int64_t micro = 0; micro < options_.accumulation; ++micro)
        microBatch(recorder, [&](std::string_view stage, double done) {
            report(stage, 0.8 * (static_cast<double>(micro) + done) / static_cast<double>(options_.accumulation));
        });
    report("optimizer", 0.8);
    if (recorder)
        recorder->beginOptimizer();
    optimizer_->step();
    if (recorder) {
        recorder->endOptimizer(optimizer_->state());
        recorder->beginZeroGrad();
    }
    optimizer_->zeroGrad();
}

void StepRunner::microBatch(Recorder* recorder, const ProgressReport& report)
{
    report("forward", 0);
    const at::Tensor loss = forward();
    if (recorder)
        recorder->mark(Mark::forwardEnd);
    report("backward", 0.375);
    loss.backward();
    if (recorder)
        recorder->mark(Mark::backwardEnd);
}

at::Tensor StepRunner::forward()
{
    const ModuleCallScope moduleCalls(options_.moduleCalls.get());
    if (!options_.autocast)
        return outputAndLoss();
    const AutocastScope autocast({.device = device_, .dtype = at::kBFloat16});
    return outputAndLoss();
}

at::Tensor StepRunner::outputAndLoss()
{
    if (!options_.holdOutput)
        return lossOf(model_.forward());
    // The old output dies here, after the new output exists.
    output_ = model_.forward();
    return lossOf(output_);
}

at::Tensor StepRunner::lossOf(const std::vector<at::Tensor>& outputs)
{
    const auto found = std::ranges::find_if(outputs, [](const at::Tensor& one) { return one.is_floating_point(); });
    if (found == outputs.end())
        throw StepRefused{"the model returns no tensor of floating-point numbers, so there is no loss"};
    const at::Tensor& output = *found;
    usedLoss_ = options_.loss;
    if (usedLoss_ == Loss::automatic)
        usedLoss_ = output.dim() == 0 && output.requires_grad() ? Loss::output : Loss::sum;
    at::Tensor loss = output;
    if (usedLoss_ == Loss::sum)
        loss = output.sum();
    else if (usedLoss_ == Loss::mean)
        loss = output.mean();
    else if (output.numel() != 1)
        throw StepRefused{"--loss output needs a model that returns a single number; this model returns "
                          + shape(output) + "; use --loss sum or mean"};
    if (!loss.requires_grad())
        throw StepRefused{"the model's first output does not depend on a trainable parameter, so there is no backward"};
    return loss;
}

} // namespace headroom
