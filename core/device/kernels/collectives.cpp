// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Collectives of torch.distributed in a job with only this process running. Collectives take no memory and end at once.
// The results are as in a job where all ranks hold the same as this process.

#include "core/device/boxed_values.h"
#include "core/device/card_limit.h"
#include "core/device/cuda_device.h"
#include "core/device/known_storage.h"
#include "core/device/silence.h"
#include "core/device/simulated_guard.h"
#include "core/device/simulated_state.h"
#include "core/device/stream_observer.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue_inl.h>
#include <c10/core/StreamGuard.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom::sim {
namespace {

/// A collective call, as the group's backend receives the arguments. Lists of lists are flattened: the parts of all
/// ranks for the first tensor, then for the second, and so on.
struct CollectiveCall
{
    std::vector<at::Tensor> written;
    std::vector<at::Tensor> read; ///< empty: the collective works in place
    std::int64_t ranks = 1; ///< size of the group
    std::int64_t rank = 0; ///< this process's rank in the group
    c10d::ReduceOp::RedOpType reduction = c10d::ReduceOp::UNUSED;
};

/// Each of these functions sets the values of the tensors that a collective writes, as if other ranks held the same as
/// this rank. Elements with unknown values become unknown.

using at::Tensor;
using c10d::ReduceOp;

bool hasValues(const Tensor& tensor)
{
    return !isSimulated(tensor.device()) || knownPart(tensor) != Known::nothing;
}

void forgetOnDevice(const Tensor& tensor)
{
    if (isSimulated(tensor.device()))
        forget(tensor);
}

bool isSameMemory(const Tensor& one, const Tensor& other)
{
    return one.is_alias_of(other) && one.storage_offset() == other.storage_offset();
}

void copyKnown(const Tensor& to, const Tensor& from)
{
    if (to.numel() != from.numel() || !hasValues(from))
        forgetOnDevice(to);
    else if (!isSameMemory(to, from))
        to.copy_(from.view_as(to));
}

void reduce(const Tensor& tensor, const CollectiveCall& call)
{
    // The sum of booleans is true if any is true: no change.
    if (!hasValues(tensor) || tensor.scalar_type() == at::kBool)
        return;
    if (call.reduction == ReduceOp::SUM)
        tensor.mul_(call.ranks);
    else if (call.reduction == ReduceOp::PRODUCT)
        tensor.pow_(call.ranks);
    else if (call.reduction == ReduceOp::BXOR && call.ranks % 2 == 0)
        tensor.zero_();
    // Mean, minimum and maximum of equal numbers are that number.
}

/// Returns the equal parts of a tensor for the ranks; empty for a size that cannot be divided.
std::vector<Tensor> parts(const Tensor& whole, const CollectiveCall& call)
{
    if (!whole.is_contiguous() || whole.numel() % call.ranks != 0)
        return {};
    return whole.view({call.ranks, whole.numel() / call.ranks}).unbind(0);
}

std::size_t own(const CollectiveCall& call)
{
    return static_cast<std::size_t>(call.rank);
}

void exchangeUnequal(const CollectiveCall& call, at::IntArrayRef writtenSizes, at::IntArrayRef readSizes)
{
    // Every other rank sends the part that this rank sends to itself.
    const Tensor mine = call.read[0].split_with_sizes(readSizes)[own(call)];
    for (const Tensor& part : call.written[0].split_with_sizes(writtenSizes))
        copyKnown(part, mine);
}

/// all_reduce, reduce: in place.
void reduceInPlace(const CollectiveCall& call)
{
    for (const Tensor& tensor : call.written)
        reduce(tensor, call);
}

/// all_gather into an output tensor for each input.
void gatherInto(const CollectiveCall& call)
{
    for (std::size_t i = 0; i < std::min(call.written.size(), call.read.size()); ++i) {
        if (!hasValues(call.read[i])) {
            forgetOnDevice(call.written[i]);
            continue;
        }
        for (const Tensor& part : parts(call.written[i], call))
            copyKnown(part, call.read[i]);
    }
}

/// all_gather and gather into a tensor for each rank.
void gatherApart(const CollectiveCall& call)
{
    for (std::size_t i = 0; i < call.written.size(); ++i)
        copyKnown(call.written[i], call.read.at(i / static_cast<std::size_t>(call.ranks)));
}

/// all_gather of several tensors: the outputs of the first rank come first.
void gatherCoalesced(const CollectiveCall& call)
{
    for (std::size_t i = 0; i < call.written.size(); ++i)
        copyKnown(call.written[i], call.read.at(i % call.read.size()));
}

/// reduce_scatter of an input tensor for each output.
void scatterFrom(const CollectiveCall& call)
{
    for (std::size_t i = 0; i < std::min(call.written.size(), call.read.size()); ++i) {
        const std::vector<Tensor> all = hasValues(call.read[i]) ? parts(call.read[i], call) : std::vector<Tensor>();
        if (all.empty()) {
            forgetOnDevice(call.written[i]);
            continue;
        }
        copyKnown(call.written[i], all[own(call)]);
        reduce(call.written[i], call);
    }
}

/// scatter and reduce_scatter of a tensor for each rank.
void scatterApart(const CollectiveCall& call)
{
    for (std::size_t i = 0; i < call.written.size(); ++i) {
        const std::size_t part = i * static_cast<std::size_t>(call.ranks) + own(call);
        if (part >= call.read.size()) { // another rank holds the input
            forgetOnDevice(call.written[i]);
            continue;
        }
        copyKnown(call.written[i], call.read[part]);
        reduce(call.written[i], call);
    }
}

/// all_to_all with a tensor for each rank.
void exchangeApart(const CollectiveCall& call)
{
    for (const Tensor& tensor : call.written)
        copyKnown(tensor, call.read.at(own(call)));
}

/// all_to_all with a single tensor, split by sizes; empty sizes: equal parts.
void exchangeParts(const CollectiveCall& call, at::IntArrayRef writtenSizes, at::IntArrayRef readSizes)
{
    if (!hasValues(call.read[0])) {
        forgetOnDevice(call.written[0]);
        return;
    }
    if (!writtenSizes.empty() && !readSizes.empty())
        return exchangeUnequal(call, writtenSizes, readSizes);
    const std::vector<Tensor> read = parts(call.read[0], call);
    for (const Tensor& part : parts(call.written[0], call))
        copyKnown(part, read.at(own(call)));
}

/// Marks values that only another rank knows as unknown.
void forgetReceived(const CollectiveCall& call)
{
    for (const Tensor& tensor : call.written)
        forgetOnDevice(tensor);
}

using at::Tensor;
using c10d::ProcessGroup;
using c10d::ReduceOp;
using torch::jit::Stack;

/// The kind of a collective and its effect on values, by the name of the op without "c10d::".
struct Collective
{
    std::string_view name;
    CollectiveKind kind;
    void (*values)(const CollectiveCall& call); ///< null: the values do not change
};
constexpr Collective collectives[]{
    {"allreduce_", CollectiveKind::allReduce, &reduceInPlace},
    {"allreduce_coalesced_", CollectiveKind::allReduce, &reduceInPlace},
    {"allgather_", CollectiveKind::allGather, &gatherApart},
    {"allgather_coalesced_", CollectiveKind::allGather, &gatherCoalesced},
    {"_allgather_base_", CollectiveKind::allGather, &gatherInto},
    {"allgather_into_tensor_coalesced_", CollectiveKind::allGather, &gatherInto},
    {"reduce_scatter_", CollectiveKind::reduceScatter, &scatterApart},
    {"_reduce_scatter_base_", CollectiveKind::reduceScatter, &scatterFrom},
    {"reduce_scatter_tensor_coalesced_", CollectiveKind::reduceScatter, &scatterFrom},
    {"alltoall_", CollectiveKind::allToAll, &exchangeApart},
    {"alltoall_base_", CollectiveKind::allToAll, nullptr}, // the parts have different sizes
    {"broadcast_", CollectiveKind::broadcast, nullptr},
    {"reduce_", CollectiveKind::reduce, &reduceInPlace},
    {"gather_", CollectiveKind::gather, &gatherApart},
    {"scatter_", CollectiveKind::scatter, &scatterApart},
    {"send", CollectiveKind::send, nullptr},
    {"recv_", CollectiveKind::receive, &forgetReceived},
    {"recv_any_source_", CollectiveKind::receive, &forgetReceived},
    {"barrier", CollectiveKind::barrier, nullptr},
    {"monitored_barrier_", CollectiveKind::barrier, nullptr},
};

const Collective* find(std::string_view op)
{
    constexpr std::string_view space = "c10d::";
    if (!op.starts_with(space))
        return nullptr;
    const auto* const found = std::ranges::find(collectives, op.substr(space.size()), &Collective::name);
    return found != std::end(collectives) ? found : nullptr;
}

/// The event that marks the end of a communication on the group's stream.
struct Behind
{
    std::uint32_t event = 0; ///< 0: on the caller's stream, no wait is needed
    std::uint32_t stream = 0;
};

/// Work that is complete from the start. Like NCCL's work, the object holds read tensors until wait(), and results
/// until its own end.
class Done final : public c10d::Work
{
public:
    Done(std::vector<Tensor> results, std::vector<Tensor> read, Behind behind)
        : results_(std::move(results))
        , read_(std::move(read))
        , behind_(behind)
    {
    }
    bool isCompleted() override { return true; }
    bool isSuccess() const override { return true; }
    bool wait(std::chrono::milliseconds) override
    {
        synchronize();
        return true;
    }
    void synchronize() override
    {
        if (behind_.event != 0)
            tell(StreamEventKind::wait, currentStreamNumber(), behind_.event);
        read_.clear();
    }
    std::vector<Tensor> result() override { return results_; }
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override
    {
        std::vector<c10::Device> devices;
        if (!results_.empty() && !results_.front().device().is_cpu())
            devices.push_back(results_.front().device());
        auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices);
        // A wait for the future is a wait for the stream that is current now.
        c10::OptionalStreamGuard onGroups;
        if (behind_.event != 0)
            onGroups.reset_stream(c10::Stream(c10::Stream::UNSAFE, device(), behind_.stream));
        future->markCompleted(c10::IValue(results_));
        return future;
    }

private:
    std::vector<Tensor> results_;
    std::vector<Tensor> read_;
    Behind behind_;
};

void collect(const c10::IValue& value, std::vector<Tensor>& tensors)
{
    forEachTensor(value, [&](const Tensor& tensor) { tensors.push_back(tensor); });
}

/// The boxed arguments of a call.
class Arguments
{
public:
    Arguments(const c10::OperatorHandle& op, const Stack& stack)
        : arguments_(op.schema().arguments())
        , values_(argumentsOf(op, stack))
    {
    }

    const c10::IValue* find(std::string_view name) const
    {
        const auto found = std::ranges::find(arguments_, name, &c10::Argument::name);
        return found != arguments_.end() ? &values_[static_cast<std::size_t>(found - arguments_.begin())] : nullptr;
    }

    ProcessGroup& group() const { return *find("process_group")->toCustomClass<ProcessGroup>(); }

    CollectiveCall call(CollectiveKind kind) const
    {
        CollectiveCall call;
        collect(values_[0], kind == CollectiveKind::send ? call.read : call.written);
        if (values_[1].isTensor() || values_[1].isList())
            collect(values_[1], call.read);
        call.ranks = group().getSize();
        call.rank = group().getRank();
        if (const c10::IValue* reduction = find("reduce_op"))
            call.reduction = *reduction->toCustomClass<ReduceOp>();
        return call;
    }

    at::DimVector sizes(std::string_view name) const { return at::DimVector(find(name)->toIntVector()); }

    /// Returns whether the collective runs on the group's own stream. NCCL runs a collective on the caller's stream
    /// only with async_op=False.
    bool isAsync() const
    {
        const c10::IValue* async = find("async_op");
        return !async || async->toBool();
    }

private:
    const std::vector<c10::Argument>& arguments_;
    std::span<const c10::IValue> values_;
};

Bytes bytesOf(const std::vector<Tensor>& tensors)
{
    Bytes bytes = 0;
    for (const Tensor& tensor : tensors)
        bytes += static_cast<Bytes>(tensor.nbytes());
    return bytes;
}

Bytes sizeOf(CollectiveKind kind, const CollectiveCall& call)
{
    switch (kind) {
    case CollectiveKind::barrier:
        return 0;
    case CollectiveKind::allToAll:
        return bytesOf(call.read);
    default: // either tensor is the whole tensor
        return std::max(bytesOf(call.written), bytesOf(call.read));
    }
}

/// Returns the stream of a group's communicator: NCCL creates a stream for each.
std::uint32_t streamOf(const std::string& group)
{
    static std::mutex mutex;
    static auto* const streams = new std::map<std::string, std::uint32_t>; // asked also after main() has returned
    const std::lock_guard lock(mutex);
    const auto [entry, isNew] = streams->try_emplace(group);
    if (isNew)
        entry->second = newStreamNumber(/*priority=*/0);
    return entry->second;
}

Communication communicationOf(CollectiveKind kind, const Arguments& arguments, const CollectiveCall& call)
{
    Communication communication;
    communication.kind = kind;
    communication.bytes = sizeOf(kind, call);
    communication.group = arguments.group().getGroupName();
    communication.ranks = ranksOf(communication.group, arguments.group().getSize());
    const c10::IValue* peer = arguments.find(kind == CollectiveKind::send ? "dst" : "src");
    if (peer && static_cast<std::size_t>(peer->toInt()) < communication.ranks.size())
        communication.peer = communication.ranks[static_cast<std::size_t>(peer->toInt())];
    communication.async = arguments.isAsync();
    communication.stream = communication.async ? streamOf(communication.group) : currentStreamNumber();
    return communication;
}

Behind observe(Communication communication)
{
    addCommunicator(communication);
    if (!communication.async) {
        tell(communication);
        return {};
    }
    communication.before = newEvent();
    tell(communication);
    const std::uint32_t behind = newEvent();
    tell(StreamEventKind::record, communication.stream, behind);
    return {behind, communication.stream};
}

/// Returns whether this is a send or a receive: both need no wait. ProcessGroupNCCL keeps the tensors of all other
/// communications until the wait, and calls recordStream() for the tensors of a send or a receive (torch 2.8 and
/// newer).
bool isPointToPoint(CollectiveKind kind)
{
    return kind == CollectiveKind::send || kind == CollectiveKind::receive;
}

void run(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack)
{
    const Collective& collective = *find(op.schema().name());
    const Arguments arguments(op, *stack);
    const CollectiveCall call = arguments.call(collective.kind);
    const std::vector<Tensor>& tensors = call.written.empty() ? call.read : call.written;
    if (!tensors.empty())
        arguments.group().getBackend(
            tensors.front().device().type()); // throws if the group has no backend for this device
    {
        const c10::impl::ExcludeDispatchKeyGuard belowAutograd(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
        if (collective.values)
            collective.values(call);
        else if (collective.kind == CollectiveKind::allToAll)
            exchangeParts(call, arguments.sizes("output_split_sizes"), arguments.sizes("input_split_sizes"));
        const c10::IValue* root = arguments.find("root_rank");
        if (call.ranks > 1 && !(collective.kind == CollectiveKind::broadcast && root->toInt() == call.rank))
            std::ranges::for_each(call.written, &assumeOtherRanks);
    }
    Behind behind;
    if (!tensors.empty() && isSimulated(tensors.front().device())) {
        behind = observe(communicationOf(collective.kind, arguments, call));
        if (isPointToPoint(collective.kind))
            for (const Tensor& tensor : tensors)
                simulatedState().allocator.recordStream(tensor.storage().data_ptr(), behind.stream);
    }
    const bool keeps = arguments.isAsync() && !isPointToPoint(collective.kind);
    const c10::IValue written = argumentsOf(op, *stack)[0];
    dropArguments(op, stack);
    if (op.schema().returns().empty())
        return;
    if (op.schema().returns().size() == 2)
        stack->push_back(written);
    stack->emplace_back(c10::intrusive_ptr<c10d::Work>(
        c10::make_intrusive<Done>(keeps ? call.written : tensors, keeps ? call.read : std::vector<Tensor>(), behind)));
}

/// The timer of DistributedDataParallel; the timer for CUDA would create CUDA events. Nothing takes time here.
class NoTimer final : public c10d::Timer
{
public:
    std::optional<std::int64_t> measureDifference(Event, Event) override { return std::nullopt; }
    void record(Event) override {}
};

void registerFor(c10::DispatchKey key)
{
    const Silence silence;
    auto& dispatcher = c10::Dispatcher::singleton();
    static auto* const registrations = new std::vector<c10::RegistrationHandleRAII>; // never taken back
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
        if (find(name.name) && dispatcher.findSchema(name))
            registrations->push_back(dispatcher.registerImpl(
                name, key, c10::KernelFunction::makeFromBoxedFunction<&run>(), std::nullopt, nullptr, "headroom"));
    }
}

} // namespace

void registerCollectives()
{
    c10d::TimerRegistry()->Register(
        c10::DeviceType::CUDA, [](c10::Device) { return std::unique_ptr<c10d::Timer>(std::make_unique<NoTimer>()); },
        c10::REGISTRY_PREFERRED);
    registerFor(c10::DispatchKey::PrivateUse1);
}

void joinJob()
{
    registerFor(c10::DispatchKey::CPU);
}

} // namespace headroom::sim
