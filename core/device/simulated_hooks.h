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

/// Sets a CPU tensor to zeros. Whole pages of memory that belongs to an allocator of libtorch, or to the allocator of
/// pinned memory, go back to the operating system: a page takes memory again when the page is written. So what a
/// program copies from the device to the host takes no memory.
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
