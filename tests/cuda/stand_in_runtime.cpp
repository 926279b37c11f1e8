// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
//
// A GPU that is not there: CUDA's runtime as far as PyTorch calls it, preloaded before the real one. Its memory is
// address space, of as much as HEADROOM_STAND_IN_MEMORY says (bytes), its kernels compute nothing and take a fixed time
// on a clock of their own, one after the other on each stream. What runs on it is PyTorch's own dispatch, kernels'
// launches and caching allocator: which memory a step takes is true, values are not.
#include "tests/cuda/stand_in.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <unordered_map>

namespace {

constexpr std::uint64_t kernelNs = 10'000;
constexpr std::uint64_t copyNs = 2'000;
constexpr std::size_t mebibyte = std::size_t{1} << 20U;
constexpr std::size_t contextBytes = 500 * mebibyte; ///< what CUDA's own context takes of a card

std::size_t capacity()
{
    static const std::size_t bytes = [] {
        const char* const given = std::getenv("HEADROOM_STAND_IN_MEMORY");
        return given ? std::strtoull(given, nullptr, 10) : std::size_t{143771} * mebibyte;
    }();
    return bytes;
}

/// Memory of the device. Pages that nobody writes take none of the machine's.
class Memory
{
public:
    void* take(std::size_t bytes, int protection = PROT_READ | PROT_WRITE)
    {
        const std::lock_guard lock(mutex_);
        if (!room(bytes))
            return nullptr;
        void* const address = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (address == MAP_FAILED)
            return nullptr;
        used_ += bytes;
        blocks_.emplace(reinterpret_cast<std::uintptr_t>(address), bytes);
        return address;
    }
    void giveBack(void* address)
    {
        const std::lock_guard lock(mutex_);
        const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(address));
        if (found == blocks_.end())
            return;
        munmap(address, found->second);
        used_ -= found->second;
        blocks_.erase(found);
    }
    bool holds(const void* address)
    {
        const std::lock_guard lock(mutex_);
        const auto place = reinterpret_cast<std::uintptr_t>(address);
        const auto next = blocks_.upper_bound(place);
        return next != blocks_.begin() && place < std::prev(next)->first + std::prev(next)->second;
    }
    /// Of memory that is mapped by the driver's functions.
    bool count(std::size_t bytes)
    {
        const std::lock_guard lock(mutex_);
        if (!room(bytes))
            return false;
        used_ += bytes;
        return true;
    }
    void uncount(std::size_t bytes)
    {
        const std::lock_guard lock(mutex_);
        used_ -= bytes;
    }
    std::size_t free()
    {
        const std::lock_guard lock(mutex_);
        return capacity() - std::min(capacity(), used_);
    }

private:
    bool room(std::size_t bytes) const { return used_ + bytes <= capacity(); }

    std::mutex mutex_;
    std::size_t used_ = contextBytes;
    std::map<std::uintptr_t, std::size_t> blocks_;
};

Memory& memory()
{
    static auto* const memory = new Memory;
    return *memory;
}

/// When each stream has done what it was given.
class Streams
{
public:
    standin::Work run(cudaStream_t stream, std::uint64_t nanoseconds)
    {
        const std::lock_guard lock(mutex_);
        std::uint64_t& until = until_[stream];
        standin::Work work;
        work.stream = number(stream);
        work.start = std::max(until, standin::now());
        work.end = until = work.start + nanoseconds;
        return work;
    }
    std::uint64_t until(cudaStream_t stream)
    {
        const std::lock_guard lock(mutex_);
        return std::max(until_[stream], standin::now());
    }
    void wait(cudaStream_t stream, std::uint64_t instant)
    {
        const std::lock_guard lock(mutex_);
        until_[stream] = std::max(until_[stream], instant);
    }
    std::uint64_t last()
    {
        const std::lock_guard lock(mutex_);
        std::uint64_t last = 0;
        for (const auto& [stream, until] : until_)
            last = std::max(last, until);
        return last;
    }

private:
    std::uint32_t number(cudaStream_t stream)
    {
        return numbers_.try_emplace(stream, static_cast<std::uint32_t>(numbers_.size() + 7)).first->second;
    }
    std::mutex mutex_;
    std::unordered_map<cudaStream_t, std::uint64_t> until_;
    std::unordered_map<cudaStream_t, std::uint32_t> numbers_;
};

Streams& streams()
{
    static auto* const streams = new Streams;
    return *streams;
}

void sleepUntil(std::uint64_t instant)
{
    const std::uint64_t now = standin::now();
    if (instant <= now)
        return;
    const timespec pause{static_cast<time_t>((instant - now) / 1'000'000'000),
                         static_cast<long>((instant - now) % 1'000'000'000)};
    nanosleep(&pause, nullptr);
}

std::unordered_map<const void*, std::string>& kernelNames()
{
    static auto* const names = new std::unordered_map<const void*, std::string>;
    return *names;
}

template <class Function>
Function* real(const char* name)
{
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

const char* nameOf(const void* kernel)
{
    const auto found = kernelNames().find(kernel);
    return found == kernelNames().end() ? "kernel" : found->second.c_str();
}

void launchNamed(const char* name, std::uint64_t nanoseconds, cudaStream_t stream)
{
    standin::Work work = streams().run(stream, nanoseconds);
    work.kind = standin::Work::Kind::kernel;
    work.name = name;
    standin::launched(work);
}

cudaError_t launch(const void* kernel, void** arguments, cudaStream_t stream)
{
    const char* const name = nameOf(kernel);
    std::uint64_t nanoseconds = kernelNs;
    if (std::strstr(name, "spin_kernel") && arguments) // torch.cuda._sleep(cycles), at 1 GHz
        nanoseconds = static_cast<std::uint64_t>(*static_cast<std::int64_t*>(arguments[0]));
    launchNamed(name, nanoseconds, stream);
    return cudaSuccess;
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream)
{
    std::memmove(to, from, bytes);
    standin::Work work = streams().run(stream, copyNs);
    work.kind = standin::Work::Kind::memcpy;
    work.bytes = bytes;
    standin::launched(work);
    return cudaSuccess;
}

thread_local int currentDevice = 0;

struct Event
{
    std::uint64_t instant = 0;
};

/// Functions of the driver that PyTorch asks the runtime for; expandable segments are made of them. Not their own
/// header's types: the runtime comes without that.
constexpr int success = 0;
constexpr int outOfMemory = 2;
using Address = unsigned long long;
using Handle = unsigned long long;

int addressReserve(Address* address, std::size_t bytes, std::size_t, Address, unsigned long long)
{
    void* const made = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED)
        return outOfMemory;
    *address = reinterpret_cast<Address>(made);
    return success;
}
int addressFree(Address address, std::size_t bytes)
{
    munmap(reinterpret_cast<void*>(address), bytes);
    return success;
}
int create(Handle* handle, std::size_t bytes, const void*, unsigned long long)
{
    if (!memory().count(bytes))
        return outOfMemory;
    *handle = bytes;
    return success;
}
int release(Handle handle)
{
    memory().uncount(handle);
    return success;
}
int map(Address address, std::size_t bytes, std::size_t, Handle, unsigned long long)
{
    mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE);
    return success;
}
int unmap(Address address, std::size_t bytes)
{
    madvise(reinterpret_cast<void*>(address), bytes, MADV_DONTNEED);
    return success;
}
int nothing()
{
    return success;
}

} // namespace

namespace standin {

std::uint64_t now()
{
    timespec time{};
    clock_gettime(CLOCK_REALTIME, &time); // CUPTI's timestamps, too
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(time.tv_nsec);
}

void product(void* stream, const char* name)
{
    launchNamed(name, kernelNs, static_cast<cudaStream_t>(stream));
}

} // namespace standin

extern "C" {

// --- the device

cudaError_t cudaGetDeviceCount(int* count)
{
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device)
{
    *device = currentDevice;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device)
{
    currentDevice = device;
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaDriverGetVersion(int* version)
{
    *version = 13000;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int)
{
    *properties = {};
    std::strcpy(properties->name, "NVIDIA H200");
    properties->totalGlobalMem = capacity();
    properties->major = 9;
    properties->multiProcessorCount = 132;
    properties->warpSize = 32;
    properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
    properties->maxThreadsDim[2] = 64;
    properties->maxGridSize[0] = 2147483647;
    properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
    properties->sharedMemPerBlock = 49152;
    properties->sharedMemPerBlockOptin = 232448;
    properties->sharedMemPerMultiprocessor = 233472;
    properties->maxBlocksPerMultiProcessor = 32;
    properties->textureAlignment = 512;
    properties->l2CacheSize = 60 << 20;
    properties->memoryBusWidth = 6144;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int)
{
    switch (attribute) {
    case cudaDevAttrClockRate:
        *value = 1980000;
        break;
    case cudaDevAttrMemoryClockRate:
        *value = 3201000;
        break;
    case cudaDevAttrGlobalMemoryBusWidth:
        *value = 6144;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = 132;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = 49152;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = 232448;
        break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = 233472;
        break;
    case cudaDevAttrMaxThreadsPerBlock:
        *value = 1024;
        break;
    case cudaDevAttrMaxGridDimX:
        *value = 2147483647;
        break;
    case cudaDevAttrWarpSize:
        *value = 32;
        break;
    default:
        *value = 1;
    }
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int)
{
    std::snprintf(text, static_cast<std::size_t>(length), "0000:01:00.0");
    return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int)
{
    *can = 0;
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize()
{
    const std::uint64_t from = standin::now();
    sleepUntil(streams().last());
    standin::waited(from, standin::now());
    return cudaSuccess;
}
cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}
cudaError_t cudaPeekAtLastError()
{
    return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status)
{
    const std::map<std::string, void*> known{{"cuMemAddressReserve", reinterpret_cast<void*>(&addressReserve)},
                                             {"cuMemAddressFree", reinterpret_cast<void*>(&addressFree)},
                                             {"cuMemCreate", reinterpret_cast<void*>(&create)},
                                             {"cuMemRelease", reinterpret_cast<void*>(&release)},
                                             {"cuMemMap", reinterpret_cast<void*>(&map)},
                                             {"cuMemUnmap", reinterpret_cast<void*>(&unmap)}};
    const auto found = known.find(symbol);
    *function = found == known.end() ? reinterpret_cast<void*>(&nothing) : found->second;
    if (status)
        *status = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

// --- memory

cudaError_t cudaMalloc(void** address, std::size_t bytes)
{
    *address = memory().take(bytes);
    return *address ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* address)
{
    memory().giveBack(address);
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total)
{
    *free = memory().free();
    *total = capacity();
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned int)
{
    *address = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void* address)
{
    std::free(address);
    return cudaSuccess;
}
cudaError_t cudaHostRegister(void*, std::size_t, unsigned int)
{
    return cudaSuccess;
}
cudaError_t cudaHostUnregister(void*)
{
    return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address)
{
    *attributes = {};
    attributes->type = memory().holds(address) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream)
{
    return copy(to, from, bytes, stream);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind)
{
    return copy(to, from, bytes, nullptr);
}
cudaError_t cudaMemsetAsync(void*, int, std::size_t bytes, cudaStream_t stream)
{
    standin::Work work = streams().run(stream, copyNs);
    work.kind = standin::Work::Kind::memset;
    work.bytes = bytes;
    standin::launched(work);
    return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes)
{
    return cudaMemsetAsync(to, value, bytes, nullptr);
}
cudaError_t cudaMemcpyToSymbol(const void*, const void*, std::size_t, std::size_t, cudaMemcpyKind)
{
    return cudaSuccess;
}
cudaError_t cudaGetSymbolAddress(void** address, const void*)
{
    static char symbol[4096];
    *address = symbol;
    return cudaSuccess;
}

// --- streams and events

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int)
{
    *stream = reinterpret_cast<cudaStream_t>(new char);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t)
{
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    const std::uint64_t from = standin::now();
    sleepUntil(streams().until(stream));
    standin::waited(from, standin::now());
    return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return streams().until(stream) > standin::now() ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status)
{
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t*, const cudaGraphNode_t**, const cudaGraphEdgeData**, std::size_t*)
{
    *status = cudaStreamCaptureStatusNone;
    if (id)
        *id = 0;
    return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*)
{
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int)
{
    *event = reinterpret_cast<cudaEvent_t>(new Event);
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event)
{
    return cudaEventCreateWithFlags(event, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete reinterpret_cast<Event*>(event);
    return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int)
{
    reinterpret_cast<Event*>(event)->instant = streams().until(stream);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return cudaEventRecordWithFlags(event, stream, 0);
}
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return reinterpret_cast<Event*>(event)->instant > standin::now() ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    sleepUntil(reinterpret_cast<Event*>(event)->instant);
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to)
{
    const auto begin = static_cast<double>(reinterpret_cast<Event*>(from)->instant);
    *ms = static_cast<float>((static_cast<double>(reinterpret_cast<Event*>(to)->instant) - begin) / 1e6);
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int)
{
    streams().wait(stream, reinterpret_cast<Event*>(event)->instant);
    return cudaSuccess;
}

// --- kernels

void __cudaRegisterFunction(void** binary, const char* host, char* device, const char* name, int limit, void* threadId,
                            void* blockId, void* blockDim, void* gridDim, int* warpSize)
{
    kernelNames().emplace(host, name);
    static auto* const registered
        = real<void(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*)>(
            "__cudaRegisterFunction");
    registered(binary, host, device, name, limit, threadId, blockId, blockDim, gridDim, warpSize);
}
/// Without asking the driver whether it could load it.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function)
{
    *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
    return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void** arguments, std::size_t, cudaStream_t stream)
{
    return launch(kernel, arguments, stream);
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3, dim3, void** arguments, std::size_t, cudaStream_t stream)
{
    return launch(kernel, arguments, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments)
{
    return launch(kernel, arguments, config->stream);
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int)
{
    return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*)
{
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->binaryVersion = attributes->ptxVersion = 90;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, std::size_t,
                                                                   unsigned int)
{
    *blocks = 2;
    return cudaSuccess;
}

} // extern "C"
