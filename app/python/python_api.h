// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/base/try.h"

#include <cstdint>
#include <exception>
#include <string>
#include <type_traits>

/// The functions that Python calls through ctypes. A function that can fail returns 0 on success, or the exit code of
/// the error's kind; headroom_last_error() then returns a sentence about the error. No exception leaves the functions.
#define HEADROOM_PYTHON_API extern "C" __attribute__((visibility("default")))

namespace headroom::python {

/// The text of headroom_last_error() for this thread.
std::string& lastError();

/// Returns the interface's return value for `status`, and stores the error's sentence for headroom_last_error().
int answer(const Status& status);

/// Runs `work`, which returns a Status or nothing; an exception becomes an internal error.
template <class Work>
int guarded(Work&& work)
{
    try {
        if constexpr (std::is_void_v<decltype(work())>) {
            work();
            return answer({});
        } else {
            return answer(work());
        }
    } catch (const std::exception& error) {
        // Only the first line: libtorch's errors continue with a backtrace.
        const std::string message = error.what();
        return answer(Error{ErrorKind::internal, message.substr(0, message.find('\n'))});
    }
}

/// Runs `work`, which returns a Result<std::string>. The text stays valid in this thread until the next call; null
/// after a failure.
template <class Work>
const char* guardedText(Work&& work)
{
    static thread_local std::string text;
    const int failed = guarded([&]() -> Status {
        ASSIGN_OR_RETURN(text, work());
        return {};
    });
    return failed != 0 ? nullptr : text.c_str();
}

} // namespace headroom::python

/// Returns the sentence of the last failure in this thread; empty: none. Valid until the next call.
HEADROOM_PYTHON_API const char* headroom_last_error();

HEADROOM_PYTHON_API const char* headroom_version();

/// Returns the known cards as JSON: [{"name", "title", "memory_bytes", "compute_capability", …}].
HEADROOM_PYTHON_API const char* headroom_devices();

/// Returns the name of the known card that a text means, as "rtx-4090-24gb" by "RTX 4090"; the text: no single card.
/// Valid in this thread until the next call.
HEADROOM_PYTHON_API const char* headroom_gpu_name(const char* text);

/// Call this before torch is imported if headroom_simulate() is to simulate "cuda" later.
HEADROOM_PYTHON_API void headroom_claim_cuda();

/// Simulates the card `gpu` as device type `device`: "cuda", or "sim" (torch's PrivateUse1). Call this after the import
/// of torch, so that Python's Meta kernels exist. A process can simulate one card.
HEADROOM_PYTHON_API int headroom_simulate(const char* gpu, const char* device);

/// Waits for autograd's thread (core/device/simulated_device.h). Call this before the program ends, without the GIL.
HEADROOM_PYTHON_API int headroom_await_autograd();

/// Begin and end of a backward pass that returns gradients (core/device/simulated_device.h). Call the end without the
/// GIL.
HEADROOM_PYTHON_API int headroom_begin_returning_gradients();
HEADROOM_PYTHON_API int headroom_end_returning_gradients();

/// Makes this process a rank of a distributed job. The other ranks do not run: collectives, on
/// the CPU too, contact no other process. `ranks_per_node` says what NCCL connects.
HEADROOM_PYTHON_API void headroom_join_job(int64_t ranks_per_node);
/// Declares the global ranks of a process group; `name` is c10d's.
HEADROOM_PYTHON_API void headroom_process_group(const char* name, const std::uint32_t* ranks, std::int64_t count);

/// Every thread except the caller of headroom_simulate() must call this before it uses "cuda".
HEADROOM_PYTHON_API void headroom_intercept_thread();

/// Defers the random values of large CPU tensors until the first read (core/device/deferred_fill.h), and counts
/// placeholders in copies from the device then. A caller that reads a tensor's memory without an op must call
/// headroom_make_values() first; `tensor` is the tensor's _cdata.
HEADROOM_PYTHON_API void headroom_defer_fills();
HEADROOM_PYTHON_API int headroom_make_values(void* tensor, int keepsAddress);

/// Returns 1 and fills `values` if all elements of a tensor of integers on the device are known; otherwise 0. Nothing
/// is a placeholder. `tensor` is the tensor's _cdata.
HEADROOM_PYTHON_API int headroom_known_integers(void* tensor, std::int64_t* values);

/// Memory of the simulated device, in blocks of 512 bytes. packaging/python/torch_headroom/_simulate/memory.py declares
/// the same fields in the same order.
struct HeadroomMemory
{
    std::int64_t live;
    std::int64_t peak;
    std::int64_t blocks;
    std::int64_t allocations; ///< number since the start
    std::int64_t allocated; ///< bytes of all allocations since the start
    std::int64_t outOfMemories;
    std::int64_t requested; ///< live bytes without rounding
    std::int64_t requestedPeak;
    std::int64_t reserved; ///< by the caching allocator
    std::int64_t reservedPeak;
    std::int64_t segments;
    std::int64_t capacity;
    std::int64_t usable; ///< usable by PyTorch: without CUDA's context and cuBLAS's workspaces
};
HEADROOM_PYTHON_API void headroom_memory(HeadroomMemory* memory);
/// Writes the 119 numbers of torch.cuda.memory_stats(). For all, small and large blocks: nine counters
/// (CachingAllocator::PoolCounters) of four numbers each; then the counters of oversize allocations and segments; then
/// retries, synchronizations of all streams, and failures.
HEADROOM_PYTHON_API void headroom_memory_stats(std::int64_t* numbers);
/// Returns segments and blocks as JSON, as torch.cuda.memory_snapshot() does, and the history: {"segments",
/// "entries": [{"action", "addr", "size", "stream", "pool", "time_us", "stack"}], "frames": [{"name", "filename",
/// "line"}]}. A stack is a list of indices of frames; segments and blocks have a stack, too. With `isNoted` the history
/// gets an entry.
HEADROOM_PYTHON_API const char* headroom_memory_snapshot(int isNoted);
/// The text that later entries of the history have as "metadata".
HEADROOM_PYTHON_API void headroom_set_memory_metadata(const char* text);
HEADROOM_PYTHON_API const char* headroom_memory_metadata();
/// Returns the names of the allocator's actions in the order of their numbers, separated by blanks.
HEADROOM_PYTHON_API const char* headroom_allocator_actions();
/// Starts what torch.cuda.memory._record_memory_history() asks for, with `stacks` and the others as the numbers of
/// AllocationHistory::Options (core/device/simulated_allocator.h); or stops it and drops what was kept.
HEADROOM_PYTHON_API void headroom_start_history(int stacks, int cpp, std::int64_t maxEntries, std::uint32_t skipped,
                                                int clears);
HEADROOM_PYTHON_API void headroom_stop_history();
HEADROOM_PYTHON_API void headroom_reset_peak();
HEADROOM_PYTHON_API void headroom_reset_accumulated();
HEADROOM_PYTHON_API void headroom_empty_cache();

/// Makes the card `size` times as large.
HEADROOM_PYTHON_API void headroom_enlarge_card(double size);
/// Limits the program to a share of the card's memory, as torch.cuda.set_per_process_memory_fraction() does.
HEADROOM_PYTHON_API void headroom_set_memory_fraction(double fraction);

/// Applies PyTorch's settings of the caching allocator (core/device/allocator_settings.h).
HEADROOM_PYTHON_API int headroom_apply_allocator_settings();
/// Returns the settings that the card's allocator follows now, if not PyTorch's defaults.
HEADROOM_PYTHON_API const char* headroom_allocator_settings();

/// Sets the function that is called before an allocation fails, with the requested bytes, the bytes that the program
/// may take in all, and the free bytes of the device; null: none.
HEADROOM_PYTHON_API void headroom_on_out_of_memory(void (*tell)(std::int64_t, std::int64_t, std::int64_t));

/// From here on, allocations of this thread go to the private pool of this number. With `onStream`, so do
/// allocations of any thread on this thread's current stream, as during the capture of a CUDA graph.
HEADROOM_PYTHON_API void headroom_begin_pool(std::uint32_t pool, int onStream);
HEADROOM_PYTHON_API void headroom_end_pool(std::uint32_t pool);
/// Declares that the pool is not used any more: the pool's segments may be released.
HEADROOM_PYTHON_API void headroom_give_up_pool(std::uint32_t pool);

/// A CUDA graph (core/record/captured_graph.h). headroom_graph_begin() and headroom_graph_end() capture what runs
/// on this thread's current stream between the two calls.
HEADROOM_PYTHON_API void* headroom_graph_new();
HEADROOM_PYTHON_API void headroom_graph_delete(void* graph);
HEADROOM_PYTHON_API void headroom_graph_begin(void* graph);
HEADROOM_PYTHON_API void headroom_graph_end(void* graph);
/// Prepares a replay. Call this for all parts of a graph before the first part is replayed.
HEADROOM_PYTHON_API void headroom_graph_forget(void* graph);
HEADROOM_PYTHON_API int headroom_graph_replay(void* graph);

/// Makes memory of the program pinned, as cudaHostRegister() does, and undoes that.
HEADROOM_PYTHON_API void headroom_register_pinned(const void* address, std::int64_t bytes);
HEADROOM_PYTHON_API void headroom_unregister_pinned(const void* address);

/// Resizes a storage on the device; `storage` is the _cdata of a torch.UntypedStorage.
HEADROOM_PYTHON_API int headroom_resize_storage(void* storage, std::int64_t bytes);
/// Does what Tensor.record_stream() does; `storage` is as above, `stream` is a torch.Stream's stream_id.
HEADROOM_PYTHON_API void headroom_record_stream(void* storage, std::uint32_t stream);

/// Returns how many placeholder values the program read.
HEADROOM_PYTHON_API std::int64_t headroom_placeholder_values();

/// Sets the function that is called after each placeholder value, in the thread that reads the value; null: none. The
/// argument is 1 for a truth value on which the program branches, 2 for the size of a result, otherwise 0. 3: a value
/// that depends on another rank was taken from this rank; 4: work of the card was said to be done. Neither counts as a
/// placeholder value.
HEADROOM_PYTHON_API void headroom_on_placeholder_value(void (*tell)(int));

/// Returns the ops that ran on zeros for lack of a kernel, as JSON: [{"op", "count"}].
HEADROOM_PYTHON_API const char* headroom_fallbacks();
