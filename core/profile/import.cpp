// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/profile/import.h"

#include "core/base/error.h"
#include "core/base/try.h"
#include "core/cost/device_specs.h"
#include "core/cost/op_issue.h"
#include "core/profile/profile.h"
#include "core/profile/profile_ops.h"
#include "core/profile/profile_reader.h"
#include "core/snapshot/import.h"
#include "core/trace/life_category.h"
#include "core/trace/step_trace.h"
#include "core/trace/step_trace_builder.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace headroom {
namespace {

/// The blocks of a device's allocator during a step, from profile_memory.
class BlockLives
{
public:
    static constexpr Profile::Nanoseconds never = std::numeric_limits<Profile::Nanoseconds>::max();

    /// `device` is the number of a GPU, or -1 for the CPU.
    BlockLives(const Profile& profile, const ProfileWindow& window, const ProfiledStep& step, int device);

    bool empty() const noexcept { return blocks_.empty(); }
    bool knowsStart() const noexcept { return knowsStart_; } ///< whether the allocated bytes at its start are known
    Bytes allocatedPeak() const noexcept { return allocatedPeak_; }
    Bytes reservedPeak() const noexcept { return reservedPeak_; } ///< -1: not known
    Bytes reservedAtStart() const noexcept { return empty() ? -1 : blocks_.front().reserved; }

    void start(StepTraceBuilder& builder); ///< allocates the blocks that exist at the start of the step
    /// Adds the allocations and frees before `end` to `builder`, attributed to `op`.
    void playUntil(Profile::Nanoseconds end, StepTraceBuilder& builder, OpId op);

private:
    struct Life
    {
        Bytes bytes = 0;
        Phase made = Phase::forward;
        std::uint32_t madeIn = 0; ///< number of phase changes before the allocation
        bool freedSoon = false; ///< freed before the next phase change
        bool freed = false;
        StorageId storage;
    };

    void look(const ProfiledStep& step);
    static std::uint64_t key(const Profile::Block& block);

    std::vector<Profile::Block> blocks_;
    std::vector<std::size_t> lifeOf_; ///< by event: index in lives_; `npos`: none
    std::vector<Life> lives_;
    std::size_t before_ = 0; ///< index in lives_ of the first block from before the step
    Bytes rest_ = 0; ///< bytes allocated before the step and not freed in the step
    std::size_t next_ = 0;
    Bytes allocatedPeak_ = 0;
    Bytes reservedPeak_ = -1;
    bool knowsStart_ = true;
};

constexpr std::size_t npos = SIZE_MAX;

BlockLives::BlockLives(const Profile& profile, const ProfileWindow& window, const ProfiledStep& step, int device)
{
    Bytes known = 0;
    for (const Profile::Block& block : profile.blocks) {
        if (block.device != device || block.bytes == 0)
            continue;
        if (block.at < window.begin)
            known += block.bytes;
        else if (block.at < window.end)
            blocks_.push_back(block);
    }
    std::ranges::stable_sort(blocks_, {}, &Profile::Block::at);
    if (blocks_.empty())
        return;
    knowsStart_ = blocks_.front().allocated >= 0;
    Bytes now = knowsStart_ ? blocks_.front().allocated - blocks_.front().bytes : std::max<Bytes>(0, known);
    rest_ = now;
    for (const Profile::Block& block : blocks_) {
        now = block.allocated >= 0 ? block.allocated : now + block.bytes;
        allocatedPeak_ = std::max(allocatedPeak_, now);
        reservedPeak_ = std::max(reservedPeak_, block.reserved);
    }
    look(step);
}

/// Returns the address of a block, or a key from the size if the address is unknown.
std::uint64_t BlockLives::key(const Profile::Block& block)
{
    return block.address != 0 ? block.address
                              : (std::uint64_t{1} << 63) + static_cast<std::uint64_t>(std::abs(block.bytes));
}

void BlockLives::look(const ProfiledStep& step)
{
    std::unordered_map<std::uint64_t, std::vector<std::size_t>> live;
    std::vector<Life> before;
    std::vector<std::size_t> beforeAt;
    lifeOf_.assign(blocks_.size(), npos);
    std::size_t op = 0;
    std::uint32_t changes = 0;
    Phase phase = step.ops.empty() ? Phase::forward : step.ops.front().phase;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        const Profile::Block& block = blocks_[i];
        for (; op < step.ops.size() && step.ops[op].span->begin <= block.at; ++op) {
            changes += step.ops[op].phase != phase ? 1 : 0;
            phase = step.ops[op].phase;
        }
        std::vector<std::size_t>& there = live[key(block)];
        if (block.bytes > 0) {
            there.push_back(lives_.size());
            lifeOf_[i] = lives_.size();
            lives_.push_back({block.bytes, phase, changes, false, false, {}});
        } else if (!there.empty()) {
            Life& life = lives_[there.back()];
            life.freed = true;
            life.freedSoon = life.madeIn == changes;
            lifeOf_[i] = there.back();
            there.pop_back();
        } else {
            before.push_back({-block.bytes, Phase::forward, 0, false, true, {}});
            beforeAt.push_back(i);
        }
    }
    for (std::size_t i = 0; i < before.size(); ++i) {
        rest_ -= before[i].bytes;
        lifeOf_[beforeAt[i]] = lives_.size() + i;
    }
    before_ = lives_.size();
    lives_.insert(lives_.end(), before.begin(), before.end());
}

void BlockLives::start(StepTraceBuilder& builder)
{
    if (rest_ > 0)
        builder.alloc(rest_, Category::other, OpId());
    for (std::size_t i = before_; i < lives_.size(); ++i)
        lives_[i].storage = builder.alloc(lives_[i].bytes, Category::other, OpId());
}

void BlockLives::playUntil(Profile::Nanoseconds end, StepTraceBuilder& builder, OpId op)
{
    for (; next_ < blocks_.size() && blocks_[next_].at < end; ++next_) {
        const Profile::Block& block = blocks_[next_];
        Life& life = lives_[lifeOf_[next_]];
        if (block.reserved >= 0)
            builder.setReserved(block.reserved);
        if (block.bytes > 0)
            life.storage = builder.alloc(life.bytes, lifeCategory(life.made, life.freedSoon, life.freed), op);
        else
            builder.free(life.storage);
    }
}

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

/// Returns the known GPU on which most kernels ran; empty: the trace names none, or that GPU has no DeviceSpec.
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

    /// Marks the begin of backward and of the optimizer, each at the first op.
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
            notes.push_back("The trace has no kernels of a GPU: times are the CPU's.");
        else if (step_.busyMs >= 0.9 * step_.stepMs)
            notes.push_back("The GPU bound the step: the GPU worked " + inMs(step_.busyMs) + " of " + inMs(step_.stepMs)
                            + "; " + cpu + ".");
        else
            notes.push_back("The CPU bound the step: the GPU worked " + inMs(step_.busyMs) + " of " + inMs(step_.stepMs)
                            + "; " + cpu + " to launch " + std::to_string(step_.kernels) + " kernels.");
        if (lives_.empty())
            notes.emplace_back("The trace says nothing of memory: profile with profile_memory=True.");
        else if (!lives_.knowsStart())
            notes.emplace_back("The trace knows only allocations since profiling began.");
        if (withShapes_ == 0)
            notes.emplace_back("The trace has no shapes: profile with record_shapes=True.");
        if (profile_.impossible > 0)
            notes.push_back(std::to_string(profile_.impossible) + " events that end before the begin were left out.");
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

/// Converts a step of a trace to a measured step (StepInfo::source is "profile"). The time of an op is that of its
/// kernels, or its CPU time if the trace has no kernels. Bytes and flops follow from the shapes, if there are any.
/// Storages are the blocks that profile_memory recorded; the categories are deduced from the lifetimes. `gpu` is
/// the spec to calibrate; empty: the GPU that the trace names, if known.
Result<StepTracePtr> stepOf(const Profile& profile, const ProfileWindow& window, const std::string& name,
                            const std::string& gpu)
{
    Result<StepTracePtr> step = StepMaker(profile, window).make(name, gpu);
    if (!step)
        return badInput(name + " contradicts itself: " + step.error().message);
    return step;
}

} // namespace

Result<StepTracePtr> importProfile(const Profile& profile, const std::string& name, const ProfileRequest& request)
{
    const std::vector<ProfileWindow> windows = profileWindows(profile);
    ASSIGN_OR_RETURN(ProfileWindow window, chooseWindow(windows, request.step, name));
    if (request.everyStep) {
        const auto first = std::ranges::find(windows, true, &ProfileWindow::whole);
        window.begin = std::min(window.begin, first == windows.end() ? window.begin : first->begin);
    }
    return stepOf(profile, window, name, request.gpu);
}

Result<StepTracePtr> importProfile(const std::filesystem::path& path, const ProfileRequest& request)
{
    ASSIGN_OR_RETURN(const Profile profile, readProfile(path));
    return importProfile(profile, path.filename().string(), request);
}

Result<StepTracePtr> readMeasured(const std::filesystem::path& path, const ProfileRequest& request)
{
    return isProfileFile(path)
        ? importProfile(path, request)
        : readStepOrSnapshot(path, "a step file nor a memory snapshot nor a trace of torch.profiler");
}

} // namespace headroom
