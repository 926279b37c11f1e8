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

} // namespace headroom::python

/// The sentence of the last failure in this thread. Valid until the next call.
HEADROOM_PYTHON_API const char* headroom_last_error();

/// The versions that the library was built as and for.
HEADROOM_PYTHON_API const char* headroom_version();
HEADROOM_PYTHON_API const char* headroom_torch_version();

/// The known cards as JSON: [{"name", "title", "memory_bytes", "compute_capability"}].
HEADROOM_PYTHON_API const char* headroom_devices();

/// Simulates the card `gpu` as device type `device`: "sim" (torch's PrivateUse1). Call it after torch was imported, so
/// that Python's Meta kernels are there; one card in a process.
HEADROOM_PYTHON_API int headroom_simulate(const char* gpu, const char* device);

/// Memory of the simulated device, in blocks of 512 bytes.
struct HeadroomMemory
{
    std::int64_t live;
    std::int64_t peak;
    std::int64_t blocks;
    std::int64_t capacity;
};
HEADROOM_PYTHON_API void headroom_memory(HeadroomMemory* memory);
HEADROOM_PYTHON_API void headroom_reset_peak();

/// How often a value that the program read was invented.
HEADROOM_PYTHON_API std::int64_t headroom_invented_values();

/// Ops that ran on zeros for want of a kernel, as JSON: [{"op", "count"}].
HEADROOM_PYTHON_API const char* headroom_fallbacks();
