// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/trace/step_info.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// The use of a storage. The categories up to `other` are MemTracker's _MemRefType
/// (torch/distributed/_tools/mem_tracker.py), and `input`, the batch. nonPyTorch is memory of a real GPU outside of
/// PyTorch's allocator: CUDA's context, workspaces of libraries, NCCL. The last three exist only in distributed jobs,
/// as in _FSDPRefType (fsdp2_mem_tracker.py); a rank's own shards have the category `parameter` or `gradient`.
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
    unshardedGradient, ///< before reduction and scatter
    communication ///< buffers of collectives: the output of an all-gather, the input of a reduce-scatter
};
inline constexpr std::size_t categoryCount = 12;
std::string_view categoryName(Category category); ///< "parameter", … as in JSON

enum class Phase : std::uint8_t { forward, backward, optimizer, zeroGrad };
inline constexpr std::size_t phaseCount = 4;
std::string_view phaseName(Phase phase); ///< "forward", "backward", "optimizer", "zero_grad"

/// Element type of an op's result; selects the peak rate of the roofline.
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

/// Properties of an op, combined by bitwise or.
enum OpFlag : std::uint16_t {
    opView = 1, ///< result aliases an argument; nothing is allocated (RuntimeEstimator's _VIEW_OPS)
    opInPlace = 2, ///< writes to an argument
    opRandom = 4, ///< Tag.nondeterministic_seeded
    opCreate = 8, ///< a factory, to which RuntimeEstimator gives no time (_CREATE_OPS)
    opRecomputed = 16, ///< a forward op that backward recomputed
    opSacIgnored = 32, ///< selective checkpointing does not count this op (SAC_IGNORED_OPS)
    opFallback = 64, ///< has no kernel on the simulated GPU: ran on zeros on the CPU to determine its output shapes
    opNoTensorInput = 128, ///< has no tensor argument
    opMeasured = 256, ///< the op's time is the measured time of the op's kernels, not the roofline's
    opAutocastCast = 512, ///< autocast's cast of a weight, which stays in autocast's cache until autocast is left
    opInSubclass = 1024, ///< ran inside __torch_dispatch__ of a tensor subclass, as part of the subclass's own op
};

/// Ops that selective checkpointing does not count. Selective checkpointing never saves the outputs of such ops.
inline constexpr std::uint16_t opWithoutIndex = opSacIgnored | opAutocastCast;

/// The kind of an event; the comment of a kind says what `a` and `b` are. A storage has two kinds of holders, the
/// program (alloc .. free) and autograd (pack .. release). The two are recorded apart, since a checkpoint removes only
/// autograd's. A storage is alive while it has a holder.
enum class EventKind : std::uint8_t {
    alloc, ///< a = StorageId: the program holds the storage from here on
    free, ///< a = StorageId: the program (Python locals, containers) no longer holds the storage; autograd may
    opBegin, ///< a = OpId
    opEnd, ///< a = OpId
    enter, ///< a = CallId: forward of a module begins
    exit, ///< a = CallId
    backwardEnter, ///< a = CallId: the gradient of a result of the call is computed (ModTracker's pre-backward hook)
    backwardExit, ///< a = CallId: the gradients of the call's arguments are computed (post-backward hook)
    pack, ///< a = PackId: autograd saves a tensor
    unpack, ///< a = PackId, b = number of the backward pass (0 in older files): a node unpacks the tensor, and holds
            ///< the tensor until unpackEnd
    unpackEnd, ///< a = PackId: the node's apply() dropped the unpacked tensor; recorded once for each unpack
    release, ///< a = PackId: autograd destroys the saved variable
    retype, ///< a = StorageId, b = Category: a temporary becomes a gradient, an activation an optimizer state, …
    resize, ///< a = StorageId, b = index in resizes: the storage was reallocated with another size
    mark, ///< a = Mark
};
inline constexpr std::size_t eventKindCount = 15;
std::string_view eventKindName(EventKind kind); ///< the enumerator's name, for messages

/// A collective of a process group, or a point-to-point operation between two ranks of the group.
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
std::string_view collectiveName(CollectiveKind kind); ///< "all_reduce", "recv", …: the function of torch.distributed

/// Calls that order the work of streams and the CPU (cudaEventRecord, cudaStreamWaitEvent, cudaEventSynchronize), and
/// Tensor.record_stream(). Stream.wait_stream(other) is a record on `other` and a wait on the Stream object;
/// Work.wait() is a wait for the event that the collective recorded.
enum class StreamEventKind : std::uint8_t {
    record, ///< the event stands for all work issued to the stream so far
    wait, ///< work issued to the stream from here on begins after the event, at once if the event was never recorded
    synchronize, ///< the CPU waits for the event; the stream has no meaning
    use, ///< `event` is a StorageId: the block is reused only after all work that the stream got before the free
};
inline constexpr std::size_t streamEventKindCount = 4;

/// Changes of the allocator's memory outside of a step.
enum class OutsideKind : std::uint8_t {
    alloc,
    free, ///< frees the block of an earlier row
    freeOlder, ///< frees a block that is older than the rows
    emptyCache, ///< torch.cuda.empty_cache()
};
inline constexpr std::size_t outsideKindCount = 4;

/// Instants of the step. Everything before stepBegin is the state that the step starts from. stepBegin occurs exactly
/// once; the others may repeat (gradient accumulation) or be missing (an interrupted step).
enum class Mark : std::uint32_t { stepBegin, forwardEnd, backwardEnd, stepEnd, zeroGradEnd };
inline constexpr std::size_t markCount = 5;
std::string_view markName(Mark mark); ///< name of the state at that instant in JSON: "start", "after_forward", …

/// The rows of a column that another object owns, as in a StepTrace.
template <class T>
using RowView = std::span<const T>;

/// The rows of a column that grows, as in a StepTraceBuilder.
template <class T>
using OwnRows = std::vector<T>;

/// A column with rows selected by an `Id`.
template <class Id, class T, template <class> class Rows>
struct BasicColumn
{
    Rows<T> rows;

    const T& operator[](Id id) const { return rows[id.value]; }
    std::size_t size() const noexcept { return rows.size(); }
    auto begin() const noexcept { return rows.begin(); }
    auto end() const noexcept { return rows.end(); }
};

/// A list of values for each row of a parent table: rows first[p] to first[p + 1] - 1 belong to row p. `first` has one
/// element more than the parent has rows.
template <class Id, class T, template <class> class Rows>
struct BasicLists
{
    Rows<std::uint32_t> first;
    Rows<T> rows;

    std::span<const T> operator[](Id id) const
    {
        return std::span<const T>(rows).subspan(first[id.value], first[id.value + 1] - first[id.value]);
    }
};

/// Returns how many categories, from the first on, are shown for a step. A rank of a distributed job: all. A measured
/// step: up to nonPyTorch. Otherwise: the categories before nonPyTorch.
inline std::size_t categoriesOf(const StepInfo& info)
{
    if (info.distributed)
        return categoryCount;
    return static_cast<std::size_t>(Category::nonPyTorch) + (info.measured ? 1 : 0);
}

/// The tables of a recorded step.
///
/// All columns of one table have the same number of rows; ids in columns are in range or invalid. readStepTrace() and
/// StepTraceBuilder::finish() check this.
template <template <class> class Rows>
struct StepTables
{
    template <class Id, class T>
    using Column = BasicColumn<Id, T, Rows>;
    template <class Id, class T>
    using Lists = BasicLists<Id, T, Rows>;

    struct Strings
    {
        Rows<std::uint32_t> first; ///< n + 1 offsets into text
        Rows<char> text; ///< UTF-8, not terminated
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

    /// Parameters and buffers by owning module, in registration order. A tied weight has a row for each owner.
    struct Tensors
    {
        Rows<ModuleId> module;
        Rows<StringId> name; ///< without the module's path: "weight"
        Rows<StorageId> storage; ///< invalid when the tensor is not on the device
        Rows<Category> category; ///< parameter or buffer
        std::size_t size() const noexcept { return module.size(); }
    } registered;

    /// Calls of modules in the order of entry. Arguments and results are the storages of the tensors, in order
    /// and with repetitions; tensors that are not on the device are left out.
    struct Calls
    {
        Column<CallId, ModuleId> module;
        Column<CallId, CallId> parent; ///< the enclosing call; invalid for a call of the root
        Lists<CallId, StorageId> arguments;
        Lists<CallId, StorageId> results;
        std::size_t size() const noexcept { return module.size(); }
    } calls;

    /// Ops as backends see them, below autograd and composite ops, in order; the optimizer's ops included.
    struct Ops
    {
        Column<OpId, StringId> name; ///< as PyTorch prints an OpOverload: "aten.mm.default"
        Column<OpId, StringId> node; ///< autograd node that runs the op in backward ("AddmmBackward0"), else invalid
        Column<OpId, ModuleId> module; ///< innermost module; in backward that of the forward op; else the root
        Column<OpId, CallId> call; ///< innermost forward call, only in forward (and recomputed forward)
        Column<OpId, OpId> forwardOp; ///< the forward op of a backward op, if known
        Column<OpId, Phase> phase;
        Column<OpId, DType> dtype; ///< type of the first result
        Column<OpId, std::uint16_t> flags; ///< OpFlag
        Column<OpId, Bytes> bytes; ///< bytes read and written, as RuntimeEstimator counts them
        Column<OpId, double> flops; ///< multiply and add count as two; 0 when PyTorch has no formula
        Column<OpId, double> ms; ///< roofline on info.gpu, or measured
        Lists<OpId, StorageId> inputs; ///< storages of tensor arguments, in order, with repetitions
        Lists<OpId, StorageId> outputs; ///< storages of tensor results
        Lists<OpId, StorageId> mutated; ///< storages of arguments that the schema marks as written
        Column<OpId, SignatureId> signature; ///< no rows: the file is older than signatures
        Column<OpId, std::uint32_t> stream; ///< stream of the kernels, as in storages.stream; no rows: all on stream 0
        /// Innermost frame that ran the op; invalid: the op ran outside of source code, as most of backward does; no
        /// rows: not recorded. frameOf() (source_lines.h) gives such an op the frame of its forward op.
        Column<OpId, FrameId> frame;
        std::size_t size() const noexcept { return name.size(); }
    } ops;

    /// Shapes, strides and element types of ops' arguments and results, and their numbers, encoded as in
    /// core/cost/op_signature.h. Ops with equal signatures share a row.
    struct Signatures
    {
        Lists<SignatureId, std::int64_t> values;
        std::size_t size() const noexcept { return values.first.empty() ? 0 : values.first.size() - 1; }
    } signatures;

    /// Frames of source code: of Python, TorchScript, or the file of an exported program. A row is a function that
    /// runs at a line, with the row of its caller; a stack is the row of its innermost frame. No rows: not recorded.
    struct Frames
    {
        Column<FrameId, FrameId> caller; ///< an earlier row; invalid: the outermost frame
        Column<FrameId, StringId> file; ///< path as the program knows the file
        Column<FrameId, StringId> function;
        Column<FrameId, std::uint32_t> line; ///< from 1; 0: not known
        std::size_t size() const noexcept { return caller.size(); }
    } frames;

    /// Process groups of the collectives.
    struct Groups
    {
        Column<GroupId, StringId> name; ///< c10d's: "0" is the default group
        Lists<GroupId, std::uint32_t> ranks; ///< global ranks of the members, in the order of the group
        std::size_t size() const noexcept { return name.size(); }
    } groups;

    /// Ops that communicate with other ranks. Coalesced collectives are one row, of the op that ran the collectives.
    struct Collectives
    {
        static constexpr std::uint32_t noPeer = 0xffffffff;

        Rows<OpId> op; ///< rising, each once
        Rows<CollectiveKind> kind;
        /// The size that nccl-tests prints: for all_gather and gather the whole output, for reduce_scatter and scatter
        /// the whole input, for all_to_all what a rank sends, the rank's own part included; else the buffer.
        Rows<Bytes> bytes;
        Rows<GroupId> group;
        Rows<std::uint32_t> peer; ///< global rank of the other side of a send or recv, else noPeer
        Rows<std::uint8_t> async; ///< 1: the call was asynchronous and returned a Work
        std::size_t size() const noexcept { return op.size(); }
    } collectives;

    /// Events of CUDA streams, in order. A collective on a separate stream has events too: the process group records
    /// the current stream, the collective's stream waits, and the process group records that stream after the
    /// collective.
    struct StreamEvents
    {
        Rows<OpId> op; ///< ascending: the event is before this op; the number of ops: after the last op
        Rows<StreamEventKind> kind;
        Rows<std::uint32_t> stream; ///< the stream that is recorded or waits
        Rows<std::uint32_t> event; ///< number of the CUDA event; a second record replaces the first
        Rows<EventIndex> position; ///< ascending: the next row of `events`; no rows: the file is older
        std::size_t size() const noexcept { return op.size(); }
    } streamEvents;

    /// Storages on the device, in the order of allocation.
    struct Storages
    {
        Column<StorageId, Bytes> bytes; ///< rounded to the allocator's block
        Column<StorageId, Bytes> requested; ///< before rounding
        Column<StorageId, Category> category; ///< at allocation; retype events change the category
        Column<StorageId, OpId> creator; ///< op that allocated the storage; invalid: older than the step
        /// Stream and private pool of the allocation (graph_ops.h); no rows: all on stream 0. Only requests of the
        /// same stream and pool reuse the block.
        Column<StorageId, std::uint32_t> stream;
        /// Innermost frame that allocated a storage without creator; invalid: not known; no rows: not recorded.
        Column<StorageId, FrameId> frame;
        std::size_t size() const noexcept { return bytes.size(); }
    } storages;

    /// Tensors saved for backward, in the order of saving. Parameters, inputs and CPU tensors are included, since a
    /// recomputation stops at the n-th saved tensor.
    struct Packs
    {
        Column<PackId, StorageId> storage; ///< invalid when the tensor is not on the device
        Column<PackId, OpId> op; ///< the op of the autograd node that saves the tensor, if known
        std::size_t size() const noexcept { return storage.size(); }
    } packs;

    /// New sizes of resized storages.
    struct Resizes
    {
        Rows<Bytes> bytes, requested; ///< after and before rounding
        Rows<std::uint32_t> stream; ///< stream of the new block, as in storages.stream; no rows: not recorded
    } resizes;

    /// Bytes reserved by the caching allocator of a real device; no rows: not recorded. A row holds from `event`
    /// on. The first row is the state before the step; `event` of the last row may be the number of events.
    struct Reserved
    {
        Rows<EventIndex> event; ///< rising
        Rows<Bytes> bytes; ///< reserved from `event` on
        std::size_t size() const noexcept { return event.size(); }
    } reserved;

    /// Failed allocations, each with a separate op (out_of_memory.h).
    struct OutOfMemoryEvents
    {
        Rows<OpId> op; ///< rising
        Rows<Bytes> requested, deviceFree; ///< bytes asked for, and free on the device
        Rows<std::uint32_t> pieces; ///< number of free pieces that were too small; 0 or no rows: not known
        std::size_t size() const noexcept { return op.size(); }
    } outOfMemory;

    /// The largest free pieces of the allocator's memory at failed allocations, for each failure in descending order.
    struct FreePieces
    {
        Rows<std::uint32_t> failure; ///< row of outOfMemory, ascending
        Rows<Bytes> bytes;
        Rows<StorageId> beside; ///< the smaller of the two blocks beside the piece; invalid: not known
        std::size_t size() const noexcept { return failure.size(); }
    } freePieces;

    /// Changes of the allocator's memory outside of steps, in order, such as in an evaluation.
    struct Outside
    {
        Rows<OutsideKind> kind;
        Rows<Bytes> bytes; ///< requested, of the block that is allocated or freed
        Rows<std::uint32_t> stream; ///< stream and private pool of the block, as in storages.stream
        Rows<std::uint32_t> block; ///< free: the row of the block's allocation; else 0
        std::size_t size() const noexcept { return kind.size(); }
    };
    Outside beforeTraining; ///< from the program's start to the first step; no rows: not recorded
    Outside betweenSteps; ///< from the end of a step to the start of the next; no rows: none, or not recorded

    struct Events
    {
        Column<EventIndex, EventKind> kind;
        Column<EventIndex, std::uint32_t> a;
        Column<EventIndex, std::uint32_t> b;
        std::size_t size() const noexcept { return kind.size(); }
    } events;
};

/// A recorded training step: an ordered list of events, and the tables that the events refer to. Recording needs
/// libtorch; everything after recording needs only this class. Immutable; share as std::shared_ptr<const StepTrace>.
struct StepTrace : StepTables<RowView>
{
    StepInfo info;

    /// Owner of the columns' memory: a file's bytes or the builder's vectors.
    std::shared_ptr<const void> memory;

    /// Returns the op's signature (core/cost/op_signature.h); empty if the file has none.
    std::span<const std::int64_t> signatureOf(OpId op) const
    {
        const SignatureId id = ops.signature.size() > 0 ? ops.signature[op] : SignatureId();
        return id.valid() ? signatures.values[id] : std::span<const std::int64_t>();
    }
    std::string_view opName(OpId op) const { return strings[ops.name[op]]; }
    std::string_view moduleType(ModuleId module) const { return strings[modules.type[module]]; } ///< class name
    std::string_view moduleFqn(ModuleId module) const
    {
        return module.valid() ? strings[modules.fqn[module]] : std::string_view();
    }
};

using StepTracePtr = std::shared_ptr<const StepTrace>;

} // namespace headroom
