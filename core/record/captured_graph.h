// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/simulated_allocator.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace headroom {

/// A CUDA graph on the simulated device: the ops that ran during the capture, in any thread, on the stream of the
/// capture or on a stream that joined the capture (joinPool()). A replay runs the ops again, on the same streams in
/// turn and on the same memory: a replay writes the storages that the program holds, and creates and frees the storages
/// that died in the capture.
class CapturedGraph
{
public:
    CapturedGraph() = default;
    ~CapturedGraph();
    CapturedGraph(const CapturedGraph&) = delete;
    CapturedGraph& operator=(const CapturedGraph&) = delete;

    /// Captures the ops of this thread's current stream from here on. The stream has a private pool
    /// (beginAllocateToPool()). A single graph is captured at a time.
    void begin();
    void end();
    /// Frees the memory that a replay creates. Forget all parts of a graph before the replay of the first part.
    void forget();
    /// Throws if an op uses memory that the program has freed since.
    void replay();
    /// Returns whether this thread replays a graph. Ops of a captured backward then run outside of autograd.
    static bool isReplayed() noexcept;
    static std::uint64_t replays() noexcept; ///< returns the number of replays in this process so far

    /// Runs an op, and adds the op to the graph that is captured on this thread's stream, if any.
    static void run(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run);

private:
    /// Memory that ops of graphs use. Graphs in the same pool share the Memory objects.
    struct Memory
    {
        c10::weak_intrusive_ptr<c10::StorageImpl> original;
        std::weak_ptr<sim::DeviceMemory> held; ///< ends when the memory is free
        void* address = nullptr;
        c10::Storage again; ///< created by the last replay in place of an original that died

        explicit Memory(const c10::Storage& storage);
        c10::Storage storage() const;
        void write(const c10::Storage& made);
        void free();
    };
    using MemoryPtr = std::shared_ptr<Memory>;

    /// A captured op. Tensors among the arguments have only a shape, no memory.
    struct Call
    {
        c10::OperatorHandle op;
        c10::StreamId stream = 0;
        torch::jit::Stack arguments;
        std::vector<MemoryPtr> memories; ///< memory of each tensor argument, in order; null: not on the device
        std::vector<MemoryPtr> made; ///< memory of each result that the op created; null: not new
        std::vector<MemoryPtr> freed; ///< memory that was freed after the op
    };

    static std::vector<MemoryPtr>& madeAndLive();
    static MemoryPtr memoryOf(const at::Tensor& tensor);
    /// Returns the call's number.
    std::size_t add(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
    void addResults(std::size_t call, const torch::jit::Stack& stack);
    void noteFreed();
    static void run(const Call& call);

    std::mutex mutex_;
    std::uint32_t pool_ = 0;
    std::vector<MemoryPtr> freedBefore_; ///< memory of other graphs that was freed before this capture
    std::vector<Call> calls_;
};

} // namespace headroom
