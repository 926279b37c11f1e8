// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/card_memory.h"

#include "core/cost/time_model.h"
#include "core/trace/graph_ops.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace headroom {
namespace {

// Sources: ncclMemory().
constexpr Bytes measuredChannels = 24;
constexpr Bytes bytesOfTwoRanks = 544 * MiB;
constexpr Bytes bytesOfMoreRanks = 688 * MiB;
constexpr Bytes bytesOfPair = 448 * MiB;

} // namespace

Bytes ncclCommunicator(const GroupShape& group, const Topology& topology, bool pairs)
{
    if (group.ranks < 2)
        return 0;
    const Bytes channels = topology.node.channels;
    const Bytes ring = (group.ranks == 2 ? bytesOfTwoRanks : bytesOfMoreRanks) * channels / measuredChannels;
    return ring + (pairs ? (group.perNode - 1) * bytesOfPair * channels / measuredChannels : 0);
}

NcclMemory ncclMemory(const StepTrace& step, const Topology& topology)
{
    const StepTrace::Collectives& collectives = step.collectives;
    std::map<GroupId, bool> connectsPairs;
    for (std::size_t row = 0; row < collectives.size(); ++row)
        connectsPairs[collectives.group[row]] |= collectives.kind[row] == CollectiveKind::allToAll;
    const std::int64_t perNode = ranksPerNode(step.info, topology);
    NcclMemory memory;
    for (const auto& [group, pairs] : connectsPairs) {
        const Bytes bytes = ncclCommunicator(groupShape(step.groups.ranks[group], perNode), topology, pairs);
        memory.communicators += bytes > 0;
        memory.bytes += bytes;
    }
    return memory;
}

namespace {

using namespace std::string_view_literals;

// A bias that is added to a product goes through cuBLASLt (at::native::addmm_out_cuda_impl).
constexpr std::array blasLtOps{"aten.addmm"sv, "aten._addmm_activation"sv, "aten._scaled_mm"sv};
constexpr Bytes mostKiB = Bytes{1} << 32; // more than any card has; larger numbers are not valid

/// Removes the number at the beginning of the text and returns it.
std::optional<Bytes> takeNumber(std::string_view& text)
{
    Bytes number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < 0 || number > mostKiB)
        return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
}

/// The bytes of ":4096:2:16:8", pairs of size in KiB and count.
std::optional<Bytes> configuredBytes(std::string_view config)
{
    Bytes total = 0;
    const auto next = [&] {
        if (!config.starts_with(':'))
            return std::optional<Bytes>();
        config.remove_prefix(1);
        return takeNumber(config);
    };
    do {
        const auto size = next();
        const auto count = next();
        if (!size || !count || *size * *count > mostKiB)
            return std::nullopt;
        total += *size * *count * KiB;
    } while (!config.empty());
    return total;
}

/// Bytes of cuDNN's workspace for a convolution. Warnings of cuDNN 7 (github.com/chainer/chainer/pull/3972) name,
/// within 0.1 %, the bytes of all three tensors of a half precision convolution, the result in float32. Later versions
/// copy the result in its own type (nhwcToNchwKernel<__half, __half, …> in traces). Depthwise kernels read any layout.
Bytes convolutionWorkspace(const OpWork& work, const DeviceSpec& card)
{
    const ConvolutionWork& c = work.convolution;
    if (c.channelsLast || (c.groups > 1 && c.inputChannels <= 1))
        return 0;
    const bool isHalf = work.dtype == DType::float16 || work.dtype == DType::bfloat16;
    const bool hasTensorCores = card.computeCapability >= (work.dtype == DType::float16 ? 70 : 80);
    const bool isTF32 = work.dtype == DType::float32 && (work.modes & convolutionTF32) != 0;
    if (!hasTensorCores || !(isHalf || isTF32))
        return 0;
    return static_cast<Bytes>(c.inputBytes + c.outputBytes + c.weightBytes);
}

/// What an op takes of the allocator beside tensors. Ops of the same name, shapes and flags take the same.
struct BesideTensors
{
    Bytes convolution = 0; ///< cuDNN's workspace
    Bytes scratch = 0;
    bool usesBlas = false;
    bool usesBlasLt = false;
};

BesideTensors besideTensors(const StepTrace& step, OpId op, const DeviceSpec& card)
{
    const std::string_view name = step.opName(op);
    const OpSignature signature = decodedSignature(step.signatureOf(op));
    const OpWork work = workOf(name, signature, step.ops.flags[op], step.ops.flops[op]);
    BesideTensors taken;
    taken.scratch = kernelScratch(name, signature, card);
    if (work.kind == WorkClass::convolution || work.kind == WorkClass::convolutionBackward)
        taken.convolution = convolutionWorkspace(work, card);
    taken.usesBlas = work.kind == WorkClass::matmul;
    taken.usesBlasLt = taken.usesBlas && std::ranges::find(blasLtOps, overloadPacket(name)) != blasLtOps.end();
    return taken;
}

} // namespace

BlasWorkspaces blasWorkspaces(const DeviceSpec& card, std::string_view config, std::string_view ltSize)
{
    BlasWorkspaces sizes;
    sizes.blas = configuredBytes(config).value_or((card.computeCapability == 90 ? 8 * 4096 : 2 * 4096 + 8 * 16) * KiB);
    sizes.blasLt = takeNumber(ltSize).value_or(1024) * KiB;
    return sizes;
}

BlasWorkspaces ownBlasWorkspaces(const DeviceSpec& card)
{
    const auto variable = [](std::string_view name) {
        const char* const value = std::getenv(name.data()); // NOLINT(concurrency-mt-unsafe): nothing sets it
        return std::string_view(value ? value : "");
    };
    return blasWorkspaces(card, variable(cublasVariable), variable(cublasLtVariable));
}

Workspaces workspacesOf(const StepTrace& step, const DeviceSpec& card)
{
    const BlasWorkspaces sizes
        = blasWorkspaces(card, step.info.setting(cublasVariable), step.info.setting(cublasLtVariable));
    Workspaces workspaces;
    if (!step.info.source.empty())
        return workspaces; // a snapshot or a trace has all blocks of the allocator
    // A thread has a handle with workspaces for each stream; the program is a thread, autograd another. PyTorch
    // frees workspaces before and after each capture of a CUDA graph. During a capture they are in the graph's pool.
    const std::vector<std::uint32_t> places = graphPlaces(step);
    std::set<std::pair<std::uint32_t, bool>> hasBlas;
    std::set<std::pair<std::uint32_t, bool>> hasBlasLt;
    const auto keepOnce = [&](auto& has, OpId op, Bytes bytes) {
        const std::uint32_t place = places.empty() ? 0 : places[op.value];
        if (has.emplace(place, place == 0 && step.ops.phase[op] == Phase::backward).second && bytes > 0)
            workspaces.kept.push_back({op, bytes, place});
    };
    const auto setBytes = [&](std::vector<Bytes>& ofOps, OpId op, Bytes bytes) {
        if (bytes == 0)
            return;
        ofOps.resize(step.ops.size());
        ofOps[op.value] = bytes;
    };
    std::map<std::tuple<StringId, SignatureId, std::uint16_t>, BesideTensors> known;
    for (std::uint32_t row = 0; row < step.ops.size(); ++row) {
        const OpId op(row);
        const SignatureId shapes = step.ops.signature.size() > 0 ? step.ops.signature[op] : SignatureId();
        const auto [entry, isNew] = known.try_emplace({step.ops.name[op], shapes, step.ops.flags[op]});
        if (isNew)
            entry->second = besideTensors(step, op, card);
        const BesideTensors& taken = entry->second;
        setBytes(workspaces.during, op, taken.convolution);
        setBytes(workspaces.scratch, op, taken.scratch);
        if (taken.usesBlas)
            keepOnce(hasBlas, op, sizes.blas);
        if (taken.usesBlasLt)
            keepOnce(hasBlasLt, op, sizes.blasLt);
    }
    return workspaces;
}

namespace {

Bytes contextOf(const DeviceSpec& card)
{
    return card.context > 0 ? card.context : estimatedContext(card.multiprocessors);
}

/// A number of StepInfo::settings; 0: the text is none.
Bytes numberOf(std::string_view text)
{
    Bytes value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

} // namespace

Bytes estimatedContext(int multiprocessors) noexcept
{
    return (80 + 3 * Bytes{multiprocessors}) * MiB;
}

CardMemory cardMemory(const DeviceSpec& card)
{
    const BlasWorkspaces own = ownBlasWorkspaces(card);
    return {card.memory, contextOf(card), 2 * own.blas + own.blasLt};
}

CardMemory cardMemory(const DeviceSpec& card, const StepTrace& step)
{
    return {card.memory, contextOf(card), workspacesOf(step, card).keptBytes(),
            ncclMemory(step, topologyOf(card.name))};
}

std::string ncclText(const NcclMemory& nccl)
{
    if (nccl.communicators == 0)
        return {};
    return "NCCL's buffers (estimated, " + formatBytes(nccl.bytes) + " for " + std::to_string(nccl.communicators)
        + (nccl.communicators == 1 ? " communicator)" : " communicators)");
}

std::string whyOutOfMemory(const StepTrace& step, const OutOfMemory& event)
{
    std::string text = whyOutOfMemory(event);
    const Result<DeviceSpec> card = findDeviceSpec(step.info.gpu);
    NcclMemory held = card ? ncclMemory(step, topologyOf(card->name)) : NcclMemory();
    if (const std::string_view recorded = step.info.setting("communicators"); !recorded.empty())
        held = {static_cast<int>(numberOf(recorded)), numberOf(step.info.setting("communicator bytes"))};
    const std::string nccl = ncclText(held);
    return nccl.empty() ? text : text + " The card also holds " + nccl + ", outside of PyTorch's memory.";
}

} // namespace headroom
