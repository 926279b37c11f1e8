// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/profile/profile_step.h"

#include "core/cost/gpu_facts.h"
#include "core/cost/op_issue.h"
#include "core/profile/block_lives.h"
#include "core/profile/op_shapes.h"
#include "core/profile/profile_ops.h"
#include "core/trace/step_trace_builder.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace headroom {

namespace {

/// Returns the number of the GPU on which most kernels ran; nullopt: there are no kernels.
std::optional<int> busiestGpu(const Profile& profile)
{
    std::map<int, std::size_t> kernels;
    for (const Profile::Kernel& kernel : profile.kernels)
        ++kernels[kernel.device];
    if (kernels.empty())
        return std::nullopt;
    return std::ranges::max_element(kernels, {}, [](const auto& entry) { return entry.second; })->first;
}

std::string inMs(double ms)
{
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.2f ms", ms);
    return text.data();
}

class StepMaker
{
public:
    StepMaker(const Profile& profile, const ProfileWindow& window)
        : profile_(profile)
        , step_(profiledStep(profile, window))
        , device_(busiestGpu(profile))
        , lives_(profile, window, step_, device_.value_or(-1))
    {
    }

    Result<StepTracePtr> make(const std::string& name, const std::string& gpu)
    {
        builder_.info.source = "profile";
        builder_.info.model = name;
        builder_.info.gpu = gpu.empty() ? gpuOf(profile_) : gpu;
        builder_.info.device = device_ ? "cuda:" + std::to_string(*device_) : "cpu";
        builder_.info.simulated = false;
        builder_.info.steps = 0;
        addModules();
        if (lives_.reservedAtStart() >= 0)
            builder_.setReserved(lives_.reservedAtStart());
        lives_.start(builder_);
        builder_.mark(Mark::stepBegin);
        for (std::size_t i = 0; i < step_.ops.size(); ++i)
            add(i);
        builder_.mark(Mark::stepEnd);
        builder_.info.measured = measured();
        return withCpuFactor(builder_.finish());
    }

private:
    Result<StepTracePtr> withCpuFactor(Result<StepTracePtr> step) const
    {
        if (!step)
            return step;
        std::vector<double> issueMs;
        for (const ProfiledOp& op : step_.ops)
            issueMs.push_back(op.issueMs);
        auto result = std::make_shared<StepTrace>(**step);
        // Shapes cost the profiler more than most ops cost the CPU.
        result->info.measured->cpuFactor = withShapes_ > 0 ? 0 : cpuFactorOf(**step, issueMs);
        result->memory = *std::move(step);
        return StepTracePtr(std::move(result));
    }

    void addModules()
    {
        modules_.push_back(builder_.addModule("trace", "trace", ModuleId()));
        for (std::size_t i = 1; i < step_.modules.size(); ++i) {
            const ProfiledStep::Module& module = step_.modules[i];
            const std::string type = module.name.substr(module.name.rfind('.') + 1);
            modules_.push_back(builder_.addModule("trace." + module.name, type, modules_[module.parent]));
        }
        moduleMs_.resize(modules_.size());
    }

    void add(std::size_t i)
    {
        const ProfiledOp& op = step_.ops[i];
        markPhase(op.phase);
        StepTraceBuilder::Op begun;
        begun.name = builder_.string(stepOpName(profile_.texts[op.span->name]));
        begun.module = modules_[op.module];
        begun.phase = op.phase;
        const OpId id = builder_.beginOp(begun);
        lives_.playUntil(i + 1 < step_.ops.size() ? step_.ops[i + 1].span->begin : lives_.never, builder_, id);
        builder_.endOp(id, resultOf(op));
    }

    StepTraceBuilder::OpResult resultOf(const ProfiledOp& op)
    {
        StepTraceBuilder::OpResult result;
        result.ms = device_ ? op.gpuMs : op.cpuMs;
        for (std::uint32_t module = op.module;; module = step_.modules[module].parent) {
            moduleMs_[module] += result.ms;
            if (module == 0)
                break;
        }
        // Old traces give 0 for times below a microsecond.
        if (op.gpuMs > 0)
            result.flags |= opMeasured;
        const auto [known, isNew] = shapes_.try_emplace({op.span->name, op.span->arguments, op.kernel});
        if (isNew)
            known->second = opShapes(profile_, *op.span, profile_.texts[op.kernel]);
        if (const auto& shapes = known->second) {
            std::vector<TensorShape> all = shapes->inputs;
            all.insert(all.end(), shapes->outputs.begin(), shapes->outputs.end());
            result.bytes = transferBytes(all);
            result.flops = flops(shapes->name, shapes->inputs, shapes->outputs, shapes->convolution);
            result.dtype = shapes->dtype;
            signature_ = encoded(shapes->call);
            result.signature = signature_;
            ++withShapes_;
        }
        return result;
    }

    /// Marks the begin of backward at its first op, and that of the optimizer likewise.
    void markPhase(Phase phase)
    {
        if (phase == Phase::backward && !std::exchange(inBackward_, true))
            builder_.mark(Mark::forwardEnd);
        if (phase == Phase::optimizer && inBackward_ && !std::exchange(inOptimizer_, true))
            builder_.mark(Mark::backwardEnd);
    }

    MeasuredStep measured() const
    {
        MeasuredStep measured;
        measured.stepMs = step_.stepMs;
        measured.busyMs = step_.busyMs;
        measured.kernelMs = step_.kernelMs;
        measured.withoutOpMs = step_.withoutOpMs;
        measured.spanMs = step_.spanMs;
        measured.synchronizationMs = step_.synchronizationMs;
        measured.kernels = step_.kernels;
        measured.allocatedPeak = lives_.allocatedPeak();
        measured.activePeak = lives_.allocatedPeak();
        measured.reservedPeak = std::max<Bytes>(0, lives_.reservedPeak());
        measured.moduleMs = moduleMs_;
        measured.notes = notes();
        return measured;
    }

    /// Returns facts that no other field of the step holds.
    std::vector<std::string> notes() const
    {
        std::vector<std::string> notes;
        const std::string cpu = std::to_string(step_.ops.size()) + " ops took the CPU " + inMs(step_.cpuMs);
        if (!device_)
            notes.push_back("The trace has no kernels of a GPU: times are those of the CPU.");
        else if (step_.busyMs >= 0.9 * step_.stepMs)
            notes.push_back("The GPU bound the step: it worked " + inMs(step_.busyMs) + " of " + inMs(step_.stepMs)
                            + "; " + cpu + ".");
        else
            notes.push_back("The CPU bound the step: the GPU worked " + inMs(step_.busyMs) + " of " + inMs(step_.stepMs)
                            + "; " + cpu + " to launch " + std::to_string(step_.kernels) + " kernels.");
        if (lives_.empty())
            notes.emplace_back("The trace says nothing of memory: record it with profile_memory=True.");
        else if (!lives_.knowsStart())
            notes.emplace_back("The trace says what was allocated since it began, not what was there before.");
        if (withShapes_ == 0)
            notes.emplace_back("The trace has no shapes: record it with record_shapes=True.");
        if (profile_.impossible > 0)
            notes.push_back(std::to_string(profile_.impossible) + " events that end before they begin were left out.");
        return notes;
    }

    const Profile& profile_;
    ProfiledStep step_;
    std::optional<int> device_;
    BlockLives lives_;
    StepTraceBuilder builder_;
    std::vector<ModuleId> modules_;
    std::vector<double> moduleMs_;
    /// Shapes by name, arguments and kernel of the op.
    std::map<std::tuple<Profile::Text, std::uint32_t, Profile::Text>, std::optional<OpShapes>> shapes_;
    std::size_t withShapes_ = 0;
    std::vector<std::int64_t> signature_; ///< signature of the op that ends now
    bool inBackward_ = false;
    bool inOptimizer_ = false;
};

} // namespace

Result<StepTracePtr> stepOf(const Profile& profile, const ProfileWindow& window, const std::string& name,
                            const std::string& gpu)
{
    Result<StepTracePtr> step = StepMaker(profile, window).make(name, gpu);
    if (!step)
        return badInput(name + " contradicts itself: " + step.error().message);
    return step;
}

std::string gpuOf(const Profile& profile)
{
    const int number = busiestGpu(profile).value_or(0);
    const auto device = std::ranges::find(profile.devices, number, &Profile::Device::number);
    if (device == profile.devices.end())
        return {};
    GpuFacts facts;
    facts.name = device->name;
    facts.memory = device->memory;
    facts.computeCapability = device->computeCapability;
    facts.multiprocessors = device->multiprocessors;
    const std::string name = deviceSpecOf(facts).name;
    return findDeviceSpec(name).ok() ? name : std::string();
}

} // namespace headroom
