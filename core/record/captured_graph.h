// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/simulated_allocator.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/FunctionRef.h>

#include <memory>
#include <mutex>
#include <vector>

namespace headroom {

/// A CUDA graph on the simulated device: the ops that ran on a stream while it was captured, in any thread. A replay
/// runs them again, on the memory that they had: a storage that the program holds is written anew, one that died in the
/// capture is made and dies where it did then.
class CapturedGraph
{
public:
    CapturedGraph() = default;
    ~CapturedGraph();
    CapturedGraph(const CapturedGraph&) = delete;
    CapturedGraph& operator=(const CapturedGraph&) = delete;

    /// Captures the ops of this thread's current stream from here on. One graph is captured at a time.
    void begin();
    void end();
    /// Frees what the replay makes anew. Of a graph in parts, all are forgotten before the first is replayed.
    void forget();
    /// Throws if an op uses memory that the program has freed since.
    void replay();
    /// Whether this thread replays a graph: what autograd ran in the capture runs without it.
    static bool isReplayed() noexcept;

    /// Runs an op, as part of the graph that is captured on this thread's stream, if one is.
    static void run(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run);

private:
    /// Memory that ops of graphs use; graphs of one pool know each other's.
    struct Memory
    {
        c10::weak_intrusive_ptr<c10::StorageImpl> original;
        std::weak_ptr<sim::DeviceMemory> held; ///< ends when the memory is free
        void* address = nullptr;
        c10::Storage again; ///< what the last replay made in place of an original that died

        explicit Memory(const c10::Storage& storage);
        c10::Storage storage() const;
        void write(const c10::Storage& made);
        void free();
    };
    using MemoryPtr = std::shared_ptr<Memory>;

    /// One op. Its tensors have a shape and no memory of their own.
    struct Call
    {
        c10::OperatorHandle op;
        torch::jit::Stack arguments;
        std::vector<MemoryPtr> memories; ///< of the tensors among the arguments, in order; null: not on the device
        std::vector<MemoryPtr> made; ///< by the op, for the tensors of its results; null: not new
        std::vector<MemoryPtr> freed; ///< after the op
    };

    static std::vector<MemoryPtr>& madeAndLive();
    static MemoryPtr memoryOf(const at::Tensor& tensor);
    /// Returns the call's number.
    std::size_t add(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
    void addResults(std::size_t call, const torch::jit::Stack& stack);
    void noteFreed();
    static void run(const Call& call);

    std::mutex mutex_;
    std::uint32_t stream_ = 0;
    std::vector<MemoryPtr> freedBefore_; ///< between the captures of other graphs and this one
    std::vector<Call> calls_;
};

} // namespace headroom
