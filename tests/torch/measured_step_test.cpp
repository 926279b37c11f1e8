// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// A step on a device that computes, recorded by the recorder that records GPUs: here the CPU, which every machine has.
#include "core/cuda/allocator_trace.h"
#include "core/device/addressed_memory.h"
#include "core/model/source.h"
#include "core/model/step_runner.h"
#include "core/trace/out_of_memory.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <latch>
#include <memory>
#include <numeric>
#include <thread>

namespace headroom {
namespace {

Result<StepTracePtr> recordOn(const std::shared_ptr<RealDevice>& device, const std::string& model)
{
    ModelRequest request;
    request.name = model;
    request.batch = 4;
    request.sequence = model == "demo:transformer" ? 16 : 0;
    request.device = device->device();
    if (model == "demo:mlp")
        request.settings = {{"dim", "32"}};
    else
        request.settings = {{"n_layers", "2"}, {"dim", "64"}, {"n_heads", "4"}, {"vocab_size", "100"}};
    auto source = openModel(request);
    if (!source)
        return source.error();
    StepRunner::Options options;
    options.optimizer = {OptimizerChoice::Algorithm::adam, 0};
    options.real = device;
    StepInfo info;
    info.model = model;
    auto trace = StepRunner(**source, options).record(std::move(info), device->spec(), {});
    device->stopTracing();
    return trace;
}

class StepOnADevice : public testing::TestWithParam<const char*>
{
};

TEST_P(StepOnADevice, HasTheTimesOfItsOpsAndTheMemoryOfTheAllocator)
{
    const auto recorded = recordOn(openCpu(), GetParam());
    ASSERT_TRUE(recorded) << recorded.error().message;
    const StepTrace& trace = **recorded;
    ASSERT_TRUE(trace.info.measured);
    const MeasuredStep& measured = *trace.info.measured;
    EXPECT_FALSE(trace.info.simulated);
    EXPECT_EQ(trace.info.device, "cpu");
    EXPECT_TRUE(measured.notes.empty());
    EXPECT_EQ(trace.packs.size(), 0U) << "autograd keeps its own tensors";

    // Each op ran once and has its time. What touches no tensor of the device is none of the step's ops.
    EXPECT_GE(measured.kernels, static_cast<std::int64_t>(trace.ops.size()));
    EXPECT_GT(measured.busyMs, 0);
    EXPECT_LE(measured.busyMs, measured.stepMs);
    const double ofOps = std::accumulate(trace.ops.ms.begin(), trace.ops.ms.end(), 0.0);
    EXPECT_NEAR(ofOps + measured.withoutOpMs, measured.kernelMs, 1e-6);
    for (std::uint32_t op = 0; op < trace.ops.size(); ++op)
        EXPECT_TRUE(trace.ops.flags[OpId(op)] & opMeasured) << trace.opName(OpId(op));
    ASSERT_EQ(measured.moduleMs.size(), trace.modules.size());
    EXPECT_NEAR(measured.moduleMs[0], ofOps, 1e-6) << "all is inside of the root";
    for (std::uint32_t module = 1; module < trace.modules.size(); ++module)
        EXPECT_LE(measured.moduleMs[module], measured.moduleMs[trace.modules.parent[ModuleId(module)].value]);

    // What the events add up to is what the allocator says.
    Bytes live = 0;
    Bytes peak = 0;
    bool isInStep = false;
    for (std::uint32_t row = 0; row < trace.events.size(); ++row) {
        const EventIndex event(row);
        const std::uint32_t a = trace.events.a[event];
        const EventKind kind = trace.events.kind[event];
        isInStep |= kind == EventKind::mark && a == static_cast<std::uint32_t>(Mark::stepBegin);
        if (kind == EventKind::alloc)
            live += trace.storages.requested[StorageId(a)];
        else if (kind == EventKind::free)
            live -= trace.storages.requested[StorageId(a)];
        if (isInStep)
            peak = std::max(peak, live);
    }
    EXPECT_EQ(peak, measured.requestedPeak);
}

INSTANTIATE_TEST_SUITE_P(Models, StepOnADevice, testing::Values("demo:mlp", "demo:transformer"));

/// Remembers what it was told.
struct Told final : sim::BlockObserver
{
    void allocated(sim::Block& block) override { allocatedBytes.push_back(block.requested); }
    void freed(sim::Block& block) override { freedBytes.push_back(block.requested); }
    void moved(sim::Block&, sim::Block&) override {}
    void refused(Bytes, Bytes, const sim::FreePieces&) override {}
    void reserved(Bytes) override {}

    std::vector<Bytes> allocatedBytes;
    std::vector<Bytes> freedBytes;
};

TEST(AddressedMemory, AnAddressThatComesAgainIsAnotherBlock)
{
    const at::Tensor tensor = at::empty({8});
    const c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
    const void* const address = storage.data_ptr().get();
    AddressedMemory memory;
    const auto observer = std::make_shared<Told>();
    memory.setObserver(observer);
    EXPECT_EQ(memory.blockOf(storage), nullptr);
    memory.allocated(address, 32);
    const sim::Block* const first = memory.blockOf(storage);
    ASSERT_NE(first, nullptr);
    const void* const identity = first->address;
    memory.allocated(address, 32); // what a snapshot says, too
    EXPECT_EQ(memory.liveBlocks().size(), 1U);
    memory.freed(address);
    memory.freed(address); // unknown by now
    EXPECT_EQ(memory.blockOf(storage), nullptr);
    memory.allocated(address, 24);
    ASSERT_NE(memory.blockOf(storage), nullptr);
    EXPECT_NE(memory.blockOf(storage)->address, identity);
    EXPECT_THAT(observer->allocatedBytes, testing::ElementsAre(32, 24));
    EXPECT_THAT(observer->freedBytes, testing::ElementsAre(32));
}

/// An observer whose call lasts until it is told to end.
struct Slow final : sim::BlockObserver
{
    explicit Slow(std::atomic<bool>& goneFlag)
        : gone(goneFlag)
    {
    }
    ~Slow() override { gone = true; }
    void allocated(sim::Block&) override
    {
        entered.count_down();
        end.wait();
    }
    void freed(sim::Block&) override {}
    void moved(sim::Block&, sim::Block&) override {}
    void refused(Bytes, Bytes, const sim::FreePieces&) override {}
    void reserved(Bytes) override {}

    std::atomic<bool>& gone;
    std::latch entered{1};
    std::latch end{1};
};

TEST(AddressedMemory, AnObserverLivesUntilItsLastCallEnds)
{
    AddressedMemory memory;
    std::atomic<bool> gone = false;
    auto observer = std::make_shared<Slow>(gone);
    Slow& slow = *observer;
    memory.setObserver(observer);
    std::thread loader([&memory] { memory.allocated(&memory, 32); });
    slow.entered.wait();
    memory.setObserver(nullptr);
    observer.reset();
    EXPECT_FALSE(gone);
    if (!gone)
        slow.end.count_down();
    loader.join();
    EXPECT_TRUE(gone);
}

/// What the tracker of a GPU's allocator tells, told by hand: segments, and blocks on two streams.
TEST(AddressedMemory, ReservedBytesAndStreamsComeIntoTheStep)
{
    const std::shared_ptr<RealDevice> device = openCpu();
    auto& memory = dynamic_cast<AddressedMemory&>(device->memory());
    const char* const card = reinterpret_cast<const char*>(std::uintptr_t{0x7f00} << 32); // nothing lies there
    memory.reservedMore(20 * MiB);
    memory.allocated(card, 1024, 0xcafe);
    StepInfo info;
    info.simulated = false;
    Recorder recorder(info, device->spec(), device);
    recorder.setModel({{{"Net", "Net", ModuleId()}}, {}, {}, {}});
    recorder.begin();
    memory.reservedMore(2 * MiB);
    memory.allocated(card + 4096, 512);
    memory.allocated(card + 8192, 2048, 0xbeef);
    memory.freed(card);
    memory.reservedMore(-20 * MiB);
    memory.allocated(card + 4096 * 4, 512, 0xcafe);
    const Result<StepTracePtr> step = recorder.finish();
    ASSERT_TRUE(step.ok()) << step.error().message;
    const StepTrace& trace = **step;
    EXPECT_THAT(std::vector<Bytes>(trace.reserved.bytes.begin(), trace.reserved.bytes.end()),
                testing::ElementsAre(20 * MiB, 22 * MiB, 2 * MiB));
    const auto storageAt = [&](std::size_t row) {
        EventIndex event = trace.reserved.event[row];
        while (trace.events.kind[event] != EventKind::alloc)
            ++event.value;
        return trace.storages.requested[StorageId(trace.events.a[event])];
    };
    EXPECT_EQ(storageAt(0), 1024) << "before the step";
    EXPECT_EQ(storageAt(1), 512) << "the segment comes before its first block";
    std::vector<std::uint32_t> streams;
    for (std::uint32_t i = 0; i < trace.storages.size(); ++i)
        if (trace.storages.category[StorageId(i)] != Category::nonPyTorch)
            streams.push_back(trace.storages.stream[StorageId(i)]);
    EXPECT_THAT(streams, testing::ElementsAre(1, 0, 2, 1)) << "0 is the default one, others by their appearance";
}

using c10::CachingDeviceAllocator::TraceEntry;

TraceEntry entryOf(TraceEntry::Action action, std::size_t address, Bytes size)
{
    return {action, 0, address, static_cast<std::size_t>(size), nullptr, {0, 0}, 0};
}

/// The allocator of a card that gets full: at the request to come that is chosen, its tracker hears of it, and the
/// allocator throws, as the caching allocator does, or finds another way.
class FullCard final : public c10::Allocator
{
public:
    explicit FullCard(RealDevice& device)
        : memory_(dynamic_cast<AddressedMemory&>(device.memory()))
        , inner_(c10::GetAllocator(c10::kCPU))
    {
        c10::SetAllocator(c10::kCPU, this);
        tell(memory_, entryOf(TraceEntry::SEGMENT_ALLOC, 0, 24 * MiB));
    }
    ~FullCard() override { c10::SetAllocator(c10::kCPU, inner_); }
    FullCard(const FullCard&) = delete;
    FullCard& operator=(const FullCard&) = delete;

    static constexpr Bytes wanted = 3 * MiB;
    static constexpr Bytes deviceFree = 2 * MiB;

    /// 1: the next one.
    void refuse(int request, bool throws)
    {
        untilRefused_ = request;
        throws_ = throws;
    }
    c10::DataPtr allocate(std::size_t bytes) override
    {
        if (untilRefused_ > 0 && --untilRefused_ == 0) {
            tell(memory_, entryOf(TraceEntry::SEGMENT_FREE, 0, 2 * MiB)); // what was cached goes first
            tell(memory_, entryOf(TraceEntry::OOM, deviceFree, wanted));
            TORCH_CHECK_WITH(OutOfMemoryError, !throws_, "CUDA out of memory. Tried to allocate 3.00 MiB.\nMore.");
        }
        return inner_->allocate(bytes);
    }
    c10::DeleterFnPtr raw_deleter() const override { return inner_->raw_deleter(); }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { inner_->copy_data(to, from, bytes); }

private:
    AddressedMemory& memory_;
    c10::Allocator* const inner_;
    int untilRefused_ = 0;
    bool throws_ = true;
};

std::vector<std::string> opNames(const StepTrace& trace)
{
    std::vector<std::string> names;
    for (std::uint32_t op = 0; op < trace.ops.size(); ++op)
        names.emplace_back(trace.opName(OpId(op)));
    return names;
}

/// A module's op that asks for too much on a card of which 24 MiB are reserved.
Result<StepTracePtr> recordFullCard(bool throws)
{
    const std::shared_ptr<RealDevice> device = openCpu();
    FullCard card(*device);
    const at::Tensor input = at::ones({1024});
    StepInfo info;
    info.simulated = false;
    Recorder recorder(info, device->spec(), device);
    recorder.setModel({{{"Net", "Net", ModuleId()}, {"Net.layer", "Layer", ModuleId(0)}}, {}, {}, {}});
    recorder.begin();
    const CallId call = Recorder::enter(ModuleId(1), {input});
    card.refuse(1, throws);
    try {
        EXPECT_TRUE(at::add(input, input).defined());
        EXPECT_FALSE(throws);
    } catch (const c10::OutOfMemoryError&) {
        EXPECT_TRUE(throws);
    }
    Recorder::exit(call, {});
    return recorder.finish();
}

TEST(FullCard, IsAnInstantOfTheStepInItsModule)
{
    const auto step = recordFullCard(true);
    ASSERT_TRUE(step.ok()) << step.error().message;
    const std::vector<OutOfMemory> events = outOfMemoryEvents(**step);
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].requested, FullCard::wanted);
    EXPECT_EQ(events[0].deviceFree, FullCard::deviceFree);
    EXPECT_EQ(events[0].reserved, 22 * MiB) << "after the allocator gave back what it had cached";
    EXPECT_EQ(events[0].active, 4096) << "the input";
    EXPECT_EQ((*step)->moduleFqn((*step)->ops.module[events[0].op]), "Net.layer");
    EXPECT_THAT(whyOutOfMemory(events[0]),
                testing::StartsWith("The program asked for 3.00 MiB, and the device had 2.00 MiB"));
    EXPECT_THAT(opNames(**step), testing::ElementsAre("aten.add.Tensor", "out of memory"));
}

/// As cuDNN's convolutions do, which try with less workspace.
TEST(FullCard, AnOpThatFindsAnotherWayGoesOn)
{
    const auto step = recordFullCard(false);
    ASSERT_TRUE(step.ok()) << step.error().message;
    ASSERT_EQ(outOfMemoryEvents(**step).size(), 1U);
    EXPECT_THAT(opNames(**step), testing::ElementsAre("aten.add.Tensor", "out of memory", "aten.add.Tensor"));
    EXPECT_THAT((*step)->ops.outputs[OpId(0)], testing::IsEmpty());
    EXPECT_THAT((*step)->ops.outputs[OpId(2)], testing::SizeIs(1));
}

/// In the first step of a program as well as in the recorded one, what there is of the step is kept.
TEST(FullCard, TheStepUpToThereIsKept)
{
    for (const bool first : {true, false}) {
        const std::shared_ptr<RealDevice> device = openCpu();
        ModelRequest request;
        request.name = "demo:mlp";
        request.batch = 4;
        request.settings = {{"dim", "32"}};
        request.device = device->device();
        const auto source = openModel(request);
        ASSERT_TRUE(source) << source.error().message;
        StepRunner::Options options;
        options.real = device;
        StepRunner runner(**source, options);
        FullCard card(*device);
        const auto trace = runner.record({}, device->spec(), [&](std::string_view stage, double done) {
            if (stage == "forward" && (first || done >= 0.4))
                card.refuse(3, true);
        });
        ASSERT_FALSE(trace);
        EXPECT_EQ(trace.error().kind, ErrorKind::badInput);
        EXPECT_EQ(
            trace.error().message,
            "the step does not fit on the device: CUDA out of memory. Tried to allocate 3.00 MiB.; make the batch "
            "smaller, or checkpoint as torch-headroom plan says");
        ASSERT_TRUE(runner.interrupted());
        const StepTrace& step = *runner.interrupted();
        EXPECT_EQ(step.info.steps, first ? 1 : 2);
        EXPECT_EQ(outOfMemoryEvents(step).size(), 1U);
        EXPECT_GT(step.ops.size(), 2U);
        EXPECT_TRUE(step.info.measured);
        device->stopTracing();
    }
}

/// Without a driver there is one sentence, whatever of CUDA is installed.
TEST(OpenCuda, WithoutADriverItSaysSo)
{
    if (std::filesystem::exists("/dev/nvidiactl"))
        GTEST_SKIP() << "this machine has NVIDIA's driver";
    const auto device = openCuda(0);
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().kind, ErrorKind::noDevice);
    EXPECT_THAT(device.error().message, testing::StartsWith("no GPU can be used: "));
    EXPECT_THAT(device.error().message, testing::Not(testing::HasSubstr("\n")));
}

} // namespace
} // namespace headroom
