// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/ids.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// What a storage is used for, as MemTracker's _MemRefType (torch/distributed/_tools/mem_tracker.py), with the batch
/// apart. Of a real GPU also what PyTorch's allocator does not know: CUDA's context, workspaces of libraries, NCCL. The
/// last three are of one process of a distributed job, as _FSDPRefType (fsdp2_mem_tracker.py): what a rank holds of
/// parameters and gradients is of the first categories.
enum class Category : std::uint8_t {
    parameter,
    buffer,
    gradient,
    activation,
    temporary,
    optimizer,
    input,
    other,
    nonPyTorch,
    unshardedParameter, ///< gathered from all ranks
    unshardedGradient, ///< before it is reduced and scattered
    communication ///< buffers of collectives: the output of an all-gather, the input of a reduce-scatter
};
inline constexpr std::size_t categoryCount = 12;
std::string_view categoryName(Category category); ///< "parameter", … as in JSON

enum class Phase : std::uint8_t { forward, backward, optimizer, zeroGrad };
inline constexpr std::size_t phaseCount = 4;
std::string_view phaseName(Phase phase); ///< "forward", "backward", "optimizer", "zero_grad"

/// Element type of an op's result, as far as it decides the peak rate of the roofline.
enum class DType : std::uint8_t {
    float32,
    float64,
    float16,
    bfloat16,
    float8,
    int64,
    int32,
    int16,
    int8,
    uint8,
    boolean,
    complex64,
    complex128,
    other
};
inline constexpr std::size_t dtypeCount = 14;
std::string_view dtypeName(DType dtype); ///< PyTorch's name: "float32", …

/// Facts of an op, combined by bitwise or.
enum OpFlag : std::uint16_t {
    opView = 1, ///< result aliases an argument; nothing is allocated (RuntimeEstimator's _VIEW_OPS)
    opInPlace = 2, ///< writes to an argument
    opRandom = 4, ///< Tag.nondeterministic_seeded
    opCreate = 8, ///< a factory that RuntimeEstimator counts as free (_CREATE_OPS)
    opRecomputed = 16, ///< a forward op that ran again inside backward
    opSacIgnored = 32, ///< not counted by selective checkpointing (SAC_IGNORED_OPS): its index skips this op
    opFallback = 64, ///< ran on zero CPU tensors only to learn its shapes: the last resort, shown by info and doctor
    opNoTensorInput = 128, ///< has no tensor argument
    opMeasured = 256, ///< its time is that of its kernels, not the roofline's
    opAutocastCast = 512, ///< autocast's cast of a weight, kept until it is left: a later call finds it there
    opInSubclass = 1024, ///< ran inside __torch_dispatch__ of a tensor subclass, of whose own op it is a part
};

/// Ops that selective checkpointing gives no index, and so never keeps.
inline constexpr std::uint16_t opWithoutIndex = opSacIgnored | opAutocastCast;

/// One thing that happened, in order. `a` and `b` are read as the comment says. Which ids are alive follows from these
/// events alone: there are two kinds of holders of a storage, the program (alloc .. free) and autograd (pack ..
/// release), recorded apart, since a checkpoint takes away the second kind only.
enum class EventKind : std::uint8_t {
    alloc, ///< a = StorageId: the program holds it from here
    free, ///< a = StorageId: the program (Python locals, containers) no longer holds it; autograd may
    opBegin, ///< a = OpId
    opEnd, ///< a = OpId
    enter, ///< a = CallId: forward of a module begins
    exit, ///< a = CallId
    backwardEnter, ///< a = CallId: the gradient of a result of the call is there (ModTracker's pre-backward hook)
    backwardExit, ///< a = CallId: the gradients of the call's arguments are there (post-backward hook)
    pack, ///< a = PackId: autograd saves a tensor
    unpack, ///< a = PackId, b = number of the backward pass (0 in older files): one of its nodes asks for the tensor,
            ///< and what it gets is a holder of its own until unpackEnd
    unpackEnd, ///< a = PackId: the node's apply() dropped the unpacked tensor; recorded once for each unpack
    release, ///< a = PackId: autograd's saved variable is gone
    retype, ///< a = StorageId, b = Category: a temporary becomes a gradient, an activation an optimizer state, …
    resize, ///< a = StorageId, b = index in resizes: the storage was reallocated with another size
    mark, ///< a = Mark
};
inline constexpr std::size_t eventKindCount = 15;
std::string_view eventKindName(EventKind kind); ///< as the enumerator, for messages

/// What ranks of a group do together, or two of them with each other.
enum class CollectiveKind : std::uint8_t {
    allReduce,
    allGather,
    reduceScatter,
    allToAll,
    broadcast,
    reduce,
    gather,
    scatter,
    send,
    receive,
    barrier
};
inline constexpr std::size_t collectiveKindCount = 11;
std::string_view collectiveName(CollectiveKind kind); ///< "all_reduce", … as functions of torch.distributed, "recv"

/// What orders the work of streams, and the CPU behind it: cudaEventRecord, cudaStreamWaitEvent, cudaEventSynchronize.
/// wait_stream() is record of the one and wait of the other; Work.wait() waits for what the collective recorded.
enum class StreamEventKind : std::uint8_t {
    record, ///< the event is the work that the stream was given before
    wait, ///< what the stream is given from here begins after the event; one never recorded holds nobody up
    synchronize, ///< the CPU goes on after the event; the stream has no meaning
};
inline constexpr std::size_t streamEventKindCount = 3;

/// Instants of the step. Everything before stepBegin is the state that the step starts from.
/// stepBegin is there exactly once; the others may repeat (gradient accumulation) or miss (an interrupted step).
enum class Mark : std::uint32_t { stepBegin, forwardEnd, backwardEnd, stepEnd, zeroGradEnd };
inline constexpr std::size_t markCount = 5;
std::string_view markName(Mark mark); ///< of the state at that instant, as in JSON: "start", "after_forward", …

/// A read-only column: a span with the index type that selects its rows.
template <class Id, class T>
struct Column
{
    std::span<const T> rows;

    const T& operator[](Id id) const { return rows[id.value]; }
    std::size_t size() const noexcept { return rows.size(); }
    auto begin() const noexcept { return rows.begin(); }
    auto end() const noexcept { return rows.end(); }
};

/// Rows of a child table for each row of a parent: children of p are first[p] .. first[p+1] (first has one row more).
template <class Id, class T>
struct Lists
{
    std::span<const std::uint32_t> first;
    std::span<const T> rows;

    std::span<const T> operator[](Id id) const
    {
        return rows.subspan(first[id.value], first[id.value + 1] - first[id.value]);
    }
};

/// What was measured of a step that ran on a real device.
struct MeasuredStep
{
    double stepMs = 0; ///< from begin to end, the device synchronised at both
    double busyMs = 0; ///< in which the GPU worked; where streams overlap the time counts once
    double kernelMs = 0; ///< sum of all kernels, copies and fills
    double withoutOpMs = 0; ///< of it, what no op launched
    double spanMs = 0; ///< from the first kernel's start to the last one's end
    double overheadMs = 0; ///< what tracing cost the CPU
    double synchronizationMs = 0; ///< what the CPU waited for the GPU
    std::int64_t kernels = 0; ///< and copies and fills; 0: times are the roofline's, `notes` say why
    std::int64_t opsWithoutKernel = 0; ///< of those that should have one: their times are the roofline's
    std::int64_t droppedRecords = 0;
    Bytes allocatedPeak = 0; ///< the allocator's own account of the step
    Bytes activePeak = 0;
    Bytes reservedPeak = 0;
    Bytes requestedPeak = 0;
    Bytes nonPyTorch = 0; ///< memory of the device that its allocator has not reserved, at the end
    std::vector<double> moduleMs; ///< by ModuleId: busy time of the module and what is inside of it
    std::vector<std::string> notes; ///< sentences: what could not be measured, and why

    friend bool operator==(const MeasuredStep&, const MeasuredStep&) = default;
};

/// Which process of a distributed job the step is of, by torchrun's words.
struct RankInfo
{
    std::int64_t worldSize = 1; ///< WORLD_SIZE
    std::int64_t ranksPerNode = 1; ///< LOCAL_WORLD_SIZE: rank r is on node r / ranksPerNode
    std::int64_t rank = 0; ///< RANK

    friend bool operator==(const RankInfo&, const RankInfo&) = default;
};

/// How the step was recorded: what a user needs to know to trust or repeat it.
struct StepInfo
{
    /// A size that this model can be run at again: "batch" or "sequence".
    struct Dimension
    {
        std::string name;
        std::int64_t value = 0; ///< that of this step
        std::int64_t least = 1;
        std::int64_t most = 0; ///< 0: no bound is known

        friend bool operator==(const Dimension&, const Dimension&) = default;
    };

    std::string source; ///< "snapshot": imported from PyTorch's memory snapshot, a stretch of time; else empty
    std::string model; ///< as named on the command line: "demo:transformer", "train.py"
    std::string gpu; ///< name of the device spec, e.g. "a100-80gb"
    std::string device; ///< "sim", "cpu", "cuda:0"
    std::string torch; ///< version of libtorch
    std::string dtype; ///< dtype of the parameters
    std::string optimizer; ///< "adam", …
    std::string loss; ///< "sum" or "mean" of the model's output, or "output": the model returns the loss
    std::string lifetimes = "frame"; ///< "frame" or "graph": Lifetimes in core/model/source.h
    std::string policy; ///< file of the policy whose modules were checkpointed; empty: none were
    bool autocast = false; ///< forward and loss ran under torch.autocast in bfloat16
    bool holdOutput = false; ///< the loop keeps `output` alive until the next forward has returned
    bool simulated = true; ///< ops took no time; ms come from the roofline
    std::int64_t batch = 0;
    std::int64_t sequence = 0; ///< 0: the model has no sequence dimension
    std::int64_t steps = 2; ///< training steps run; the last one is recorded
    std::int64_t inventedValues = 0; ///< `.item()` calls answered with a made-up number
    std::vector<std::string> remarks; ///< sentences of the recorder: what is other than on the card (trace/remarks.h)
    std::vector<std::pair<std::string, std::string>> settings; ///< --set KEY=VALUE
    std::vector<Dimension> dimensions; ///< empty: the model runs at its own sizes only
    /// Arguments of `torch-headroom record` that make this step again, without -o; empty: that command did not make it.
    std::vector<std::string> arguments;
    std::optional<MeasuredStep> measured; ///< none: the step was simulated
    std::optional<RankInfo> distributed; ///< none: the script ran as one process
    /// Whose milliseconds the ops have: "roofline" (as recorded), "kernel", "calibration", "measured". Set by who reads
    /// the file; not in it.
    std::string times;
};

/// How many categories a step's account has, in the order of Category: nonPyTorch only where a device was measured, or
/// other ranks.
inline std::size_t categoriesOf(const StepInfo& info)
{
    if (info.distributed)
        return categoryCount;
    return static_cast<std::size_t>(Category::nonPyTorch) + (info.measured ? 1 : 0);
}

/// One recorded training step: columns over one ordered list of events. The hinge of Headroom: everything left of it
/// needs libtorch, everything right of it only this. Immutable; share as std::shared_ptr<const StepTrace>.
///
/// All columns of one family have the same number of rows; ids in columns are in range or invalid: a trace that comes
/// from readStepTrace() or StepTraceBuilder::finish() was checked.
struct StepTrace
{
    StepInfo info;

    struct Strings
    {
        std::span<const std::uint32_t> first; ///< n + 1 offsets into text
        std::span<const char> text; ///< UTF-8, not terminated
        std::string_view operator[](StringId id) const
        {
            return id.valid() ? std::string_view(text.data() + first[id.value], first[id.value + 1] - first[id.value])
                              : std::string_view();
        }
        std::size_t size() const noexcept { return first.empty() ? 0 : first.size() - 1; }
    } strings;

    /// Modules in the order of model.modules() (depth first); 0 is the root. Names are ModTracker's: the root's class
    /// name, then attribute names ("Transformer.layers.0.attention.wq").
    struct Modules
    {
        Column<ModuleId, StringId> fqn;
        Column<ModuleId, StringId> type; ///< class name
        Column<ModuleId, ModuleId> parent; ///< invalid for the root
        std::size_t size() const noexcept { return fqn.size(); }
    } modules;

    /// Parameters and buffers by owning module, in registration order. A tied weight has one row for each of its
    /// owners.
    struct Tensors
    {
        std::span<const ModuleId> module;
        std::span<const StringId> name; ///< without the module's path: "weight"
        std::span<const StorageId> storage; ///< invalid when the tensor is not on the device
        std::span<const Category> category; ///< parameter or buffer
        std::size_t size() const noexcept { return module.size(); }
    } registered;

    /// Calls of modules in the order of their entry. Arguments and results are storages of the tensors, in order, with
    /// repetitions, tensors that are not on the device left out.
    struct Calls
    {
        Column<CallId, ModuleId> module;
        Column<CallId, CallId> parent; ///< the call inside which this one ran; invalid at the root
        Lists<CallId, StorageId> arguments;
        Lists<CallId, StorageId> results;
        std::size_t size() const noexcept { return module.size(); }
    } calls;

    /// Ops as autograd's backends see them (below composite ops), in order. Ops of the optimizer included.
    struct Ops
    {
        Column<OpId, StringId> name; ///< as PyTorch prints an OpOverload: "aten.mm.default"
        Column<OpId, StringId> node; ///< autograd node that runs it in backward ("AddmmBackward0"), else invalid
        Column<OpId, ModuleId> module; ///< innermost module; in backward that of the forward op; root when none
        Column<OpId, CallId> call; ///< innermost forward call, only in forward (and recomputed forward)
        Column<OpId, OpId> forwardOp; ///< the op whose backward this is, where known
        Column<OpId, Phase> phase;
        Column<OpId, DType> dtype; ///< of the first result
        Column<OpId, std::uint16_t> flags; ///< OpFlag
        Column<OpId, Bytes> bytes; ///< read and written, as RuntimeEstimator counts them
        Column<OpId, double> flops; ///< multiply and add count as two; 0 when PyTorch has no formula
        Column<OpId, double> ms; ///< roofline on info.gpu, or measured
        Lists<OpId, StorageId> inputs; ///< storages of tensor arguments, in order, with repetitions
        Lists<OpId, StorageId> outputs; ///< storages of tensor results
        Lists<OpId, StorageId> mutated; ///< storages of arguments that the schema marks as written
        Column<OpId, SignatureId> signature; ///< no rows: a file of before there were signatures
        /// Number of the stream that runs its kernels, as storages.stream; no rows: all on stream 0.
        Column<OpId, std::uint32_t> stream;
        std::size_t size() const noexcept { return name.size(); }
    } ops;

    /// What ops were called with and returned: shapes, strides, element types, numbers, encoded as
    /// core/cost/op_signature.h says. Calls of the same shapes share a row.
    struct Signatures
    {
        Lists<SignatureId, std::int64_t> values;
        std::size_t size() const noexcept { return values.first.empty() ? 0 : values.first.size() - 1; }
    } signatures;

    /// Process groups that collectives ran in.
    struct Groups
    {
        Column<GroupId, StringId> name; ///< c10d's: "0" is the default group
        Lists<GroupId, std::uint32_t> ranks; ///< global ranks of its members, in the order of the group
        std::size_t size() const noexcept { return name.size(); }
    } groups;

    /// Ops that talk to other ranks. Coalesced collectives are the one op that ran them.
    struct Collectives
    {
        static constexpr std::uint32_t noPeer = 0xffffffff;

        std::span<const OpId> op; ///< rising, each once
        std::span<const CollectiveKind> kind;
        /// The size that nccl-tests prints: of all_gather the gathered output, of reduce_scatter and scatter the whole
        /// input, of gather the whole output, of all_to_all what one rank sends, its own part included; else the
        /// buffer.
        std::span<const Bytes> bytes;
        std::span<const GroupId> group;
        std::span<const std::uint32_t> peer; ///< of send and recv the other's global rank, else noPeer
        std::span<const std::uint8_t> async; ///< 1: the call returned a Work that someone waits for
        std::size_t size() const noexcept { return op.size(); }
    } collectives;

    /// Events between streams, in order. Those of a collective on a stream of its own are here too: the process group
    /// records the current stream, lets its own wait, and records that behind the collective.
    struct StreamEvents
    {
        std::span<const OpId> op; ///< rising: happens before this op; one past the last op: behind all
        std::span<const StreamEventKind> kind;
        std::span<const std::uint32_t> stream; ///< that is recorded, or waits
        std::span<const std::uint32_t> event; ///< any number; recording it again replaces what it was
        std::size_t size() const noexcept { return op.size(); }
    } streamEvents;

    /// Storages on the device, in the order of allocation.
    struct Storages
    {
        Column<StorageId, Bytes> bytes; ///< rounded to the allocator's block: what the device loses
        Column<StorageId, Bytes> requested; ///< before rounding
        Column<StorageId, Category> category; ///< when allocated; retype events change it
        Column<StorageId, OpId> creator; ///< invalid for what existed before the step
        /// Number of the stream it was allocated on; no rows: all on one. A storage belongs to its stream for reuse.
        Column<StorageId, std::uint32_t> stream;
        std::size_t size() const noexcept { return bytes.size(); }
    } storages;

    /// Tensors saved for backward, in the order of saving; those of parameters, inputs and CPU tensors included, since
    /// a recomputation stops at the n-th of them.
    struct Packs
    {
        Column<PackId, StorageId> storage; ///< invalid when the tensor is not on the device
        Column<PackId, OpId> op; ///< whose node saves it, where known
        std::size_t size() const noexcept { return storage.size(); }
    } packs;

    /// New sizes of resized storages.
    struct Resizes
    {
        std::span<const Bytes> bytes; ///< rounded
        std::span<const Bytes> requested;
    } resizes;

    /// What the caching allocator of a real device had reserved, where it was recorded; no rows: it was not. A row
    /// counts from its event on, which may be one past the last; the first row is that of the state before the step.
    struct Reserved
    {
        std::span<const EventIndex> event; ///< rising
        std::span<const Bytes> bytes; ///< from it on
        std::size_t size() const noexcept { return event.size(); }
    } reserved;

    /// Requests that found no room, where there were any; each is an op of its own (out_of_memory.h).
    struct OutOfMemoryEvents
    {
        std::span<const OpId> op; ///< rising
        std::span<const Bytes> requested;
        std::span<const Bytes> deviceFree; ///< what the device still had
        std::size_t size() const noexcept { return op.size(); }
    } outOfMemory;

    struct Events
    {
        Column<EventIndex, EventKind> kind;
        Column<EventIndex, std::uint32_t> a;
        Column<EventIndex, std::uint32_t> b;
        std::size_t size() const noexcept { return kind.size(); }
    } events;

    /// Keeps the columns' memory alive: a mapped file or the builder's vectors.
    std::shared_ptr<const void> memory;

    /// What the op was called with; empty where the file does not say.
    std::span<const std::int64_t> signatureOf(OpId op) const
    {
        const SignatureId id = ops.signature.size() > 0 ? ops.signature[op] : SignatureId();
        return id.valid() ? signatures.values[id] : std::span<const std::int64_t>();
    }
    std::string_view opName(OpId op) const { return strings[ops.name[op]]; }
    std::string_view moduleFqn(ModuleId module) const
    {
        return module.valid() ? strings[modules.fqn[module]] : std::string_view();
    }
};

using StepTracePtr = std::shared_ptr<const StepTrace>;

} // namespace headroom
