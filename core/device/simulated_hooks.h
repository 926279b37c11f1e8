// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

namespace headroom::sim {

/// Creates a generator that keeps a seed and an offset as CUDA's does; no number is ever drawn.
at::Generator newGenerator();

/// Returns the device's default generator, for programs without their own generator.
const at::Generator& defaultGenerator();

/// Allocates ordinary CPU memory that reports itself as pinned: no GPU copies from this memory.
c10::Allocator* pinnedMemoryAllocator();

/// Returns whether memory comes from libtorch's allocator for the CPU or from the allocator of pinned memory.
bool isOwnHostMemory(const c10::DataPtr& memory);

/// Sets a CPU tensor to zeros. Whole pages of isOwnHostMemory() go back to the operating system: a page takes memory
/// again when the page is written. So what a program copies from the device to the host takes no memory.
void zeroHostMemory(const at::Tensor& tensor);

/// Makes other memory pinned, as cudaHostRegister() does, until the call of unregisterPinned().
void registerPinned(const void* address, std::size_t bytes);
void unregisterPinned(const void* address);

/// Returns whether an address lies in memory of this allocator, or in registered memory.
bool isPinnedMemory(const void* address);

/// Makes libtorch use the simulated device's CUDA hooks (generator, pinned memory, device count) instead of the hooks
/// of libtorch_cuda. Call this before Python imports torch: libtorch queries the hooks once, during the import.
void claimCudaHooks();

/// Returns whether libtorch uses the simulated device's CUDA hooks.
bool ownsCudaHooks();

} // namespace headroom::sim
