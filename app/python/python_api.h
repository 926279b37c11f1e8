// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <cstdint>
#include <exception>
#include <string>

/// The functions that Python calls through ctypes. Every one that can fail returns 0 when it is done, or the exit code
/// of the error's kind; headroom_last_error() then says in one sentence what went wrong. No exception leaves them.
#define HEADROOM_PYTHON_API extern "C" __attribute__((visibility("default")))

namespace headroom::python {

/// What headroom_last_error() says in this thread.
std::string& lastError();

/// The return value of a function of the interface; remembers the error's sentence.
int answer(const Status& status);

/// Runs `work`, which returns a Status; what it throws becomes an internal error.
template <class Work>
int guarded(Work&& work)
{
    try {
        return answer(work());
    } catch (const std::exception& error) {
        // The first line: libtorch's errors go on with a backtrace.
        const std::string message = error.what();
        return answer(Error{ErrorKind::internal, message.substr(0, message.find('\n'))});
    }
}

/// The same of work that returns a Result<std::string>, whose text lives in this thread until the next call; null after
/// a failure.
template <class Work>
const char* guardedText(Work&& work)
{
    static thread_local std::string text;
    const int failed = guarded([&]() -> Status {
        auto made = work();
        if (!made)
            return made.error();
        text = *std::move(made);
        return {};
    });
    return failed != 0 ? nullptr : text.c_str();
}

} // namespace headroom::python

/// The sentence of the last failure in this thread. Valid until the next call.
HEADROOM_PYTHON_API const char* headroom_last_error();

/// The versions that the library was built as and for.
HEADROOM_PYTHON_API const char* headroom_version();
HEADROOM_PYTHON_API const char* headroom_torch_version();

/// The known cards as JSON: [{"name", "title", "memory_bytes", "compute_capability", "multiprocessors"}].
HEADROOM_PYTHON_API const char* headroom_devices();

/// Before torch is imported, if headroom_simulate() is to simulate "cuda" later.
HEADROOM_PYTHON_API void headroom_claim_cuda();

/// Simulates the card `gpu` as device type `device`: "cuda", or "sim" (torch's PrivateUse1). Call it after torch was
/// imported, so that Python's Meta kernels are there; one card in a process.
HEADROOM_PYTHON_API int headroom_simulate(const char* gpu, const char* device);

/// Before the program ends: waits for autograd's thread (core/device/autograd_threads.h). Without Python's lock.
HEADROOM_PYTHON_API int headroom_await_autograd();

/// This process is one of a distributed job, of which it is the only one that is there: collectives on the CPU ask
/// nobody either.
HEADROOM_PYTHON_API void headroom_join_job();
/// The global ranks of a process group, by c10d's name of it.
HEADROOM_PYTHON_API void headroom_process_group(const char* name, const std::uint32_t* ranks, std::int64_t count);

/// Every thread but the one that called headroom_simulate() calls this before it uses "cuda".
HEADROOM_PYTHON_API void headroom_intercept_thread();

/// From now on the random values of large CPU tensors are made when they are first read (core/device/deferred_fill.h).
/// A caller that reads the memory of a tensor without an op calls headroom_make_values() first; `tensor` is its _cdata.
HEADROOM_PYTHON_API void headroom_defer_fills();
HEADROOM_PYTHON_API int headroom_make_values(void* tensor);

/// Whether all elements of a tensor of integers on the device are known; they are put into `values`. Nothing is
/// invented. `tensor` is its _cdata.
HEADROOM_PYTHON_API int headroom_known_integers(void* tensor, std::int64_t* values);

/// Memory of the simulated device, in blocks of 512 bytes. packaging/python/torch_headroom/_simulate_memory.py has
/// these fields in this order.
struct HeadroomMemory
{
    std::int64_t live;
    std::int64_t peak;
    std::int64_t blocks;
    std::int64_t allocations; ///< since the device was made
    std::int64_t allocated; ///< by these, in bytes
    std::int64_t outOfMemories;
    std::int64_t requested; ///< of the live bytes, without rounding
    std::int64_t requestedPeak;
    std::int64_t reserved; ///< by the caching allocator
    std::int64_t reservedPeak;
    std::int64_t segments;
    std::int64_t capacity;
    std::int64_t usable; ///< by PyTorch: without CUDA's context and cuBLAS's workspaces
};
HEADROOM_PYTHON_API void headroom_memory(HeadroomMemory* memory);
/// The numbers of torch.cuda.memory_stats(): of all, small and large blocks nine counters
/// (CachingAllocator::PoolCounters) of four numbers each, then retries, synchronizations of all streams, and failures.
/// `numbers` has room for 111.
HEADROOM_PYTHON_API void headroom_memory_stats(std::int64_t* numbers);
/// Segments and blocks as torch.cuda.memory_snapshot() has them, as JSON.
HEADROOM_PYTHON_API const char* headroom_memory_segments();
HEADROOM_PYTHON_API void headroom_reset_peak();
HEADROOM_PYTHON_API void headroom_reset_accumulated();
HEADROOM_PYTHON_API void headroom_empty_cache();

/// The share of the card's memory that may be allocated, as torch.cuda.set_per_process_memory_fraction.
HEADROOM_PYTHON_API void headroom_limit_memory(double fraction);

/// Resizes a storage on the device; `storage` is the _cdata of a torch.UntypedStorage.
HEADROOM_PYTHON_API int headroom_resize_storage(void* storage, std::int64_t bytes);

/// How often a value that the program read was invented.
HEADROOM_PYTHON_API std::int64_t headroom_invented_values();

/// Calls `tell` after each of them, in the thread that reads it; null: nobody. It gets 1 where the value is true or
/// false, by which the program decides, 2 where it is the size of a result, else 0; and 3 after a value that follows from
/// what other ranks of the job were taken to hold, which does not count as invented.
HEADROOM_PYTHON_API void headroom_on_invented_value(void (*tell)(int));

/// Ops that ran on zeros for want of a kernel, as JSON: [{"op", "count"}].
HEADROOM_PYTHON_API const char* headroom_fallbacks();
