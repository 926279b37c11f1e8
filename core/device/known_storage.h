// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/device/placeholder_values.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Storage.h>

#include <optional>

namespace headroom::sim {

/// The largest storage, in bytes, whose contents are kept. Programs branch on small numbers (a loss scale, a count, a
/// flag), and on masks, lengths, labels and positions from the data. Tensors up to this size keep their contents as
/// long as the contents follow from known contents. Larger tensors keep none. The limit for integers is higher: little
/// but comparisons and sums is computed with them, while all other tensors of that size are weights and activations.
inline Bytes knownValuesLimit(at::ScalarType type)
{
    return at::isIntegralType(type, /*includeBool=*/true) ? 4 * MiB : 64 * KiB;
}

/// How much of a tensor's contents is known. With `some`, each element by itself is known or unknown.
enum class Known { nothing, some, all };

/// Known contents belong to a storage and are shared by views. The contents lie on the CPU: the values, with zeros for
/// unknown elements, and a flag for each unknown element.

/// Returns whether the storage of the tensor is within knownValuesLimit().
bool isSmall(const at::Tensor& tensor);
Known knownPart(const at::Tensor& tensor);
/// Returns knownPart() for any device; the contents of a CPU tensor are known, except for copies from the device.
/// Tensors too large to compute with count as unknown.
Known readablePart(const at::Tensor& tensor);
/// Returns a CPU tensor that shares the memory of the known values; undefined if nothing of the storage is known.
at::Tensor valuesOf(const at::Tensor& tensor);
/// Returns a CPU tensor of flags, true for each unknown element; undefined if all elements are known.
at::Tensor unknownOf(const at::Tensor& tensor);
/// The assumptions on which the known contents of a tensor rest, besides the program's data.
struct Assumptions
{
    bool placeholder = false; ///< rests on a placeholder value (partly_known.h)
    bool otherRanks = false; ///< other ranks are assumed to hold the same as this rank (collectives.cpp)
    bool finite = false; ///< the numbers of a network are finite on every rank

    Assumptions& operator|=(const Assumptions& other);
};
Assumptions assumptionsOf(const at::Tensor& tensor);
/// Marks the tensor's known contents as resting on the assumption about other ranks, unless the contents say whether
/// numbers are finite: finite numbers are assumed of every rank.
void assumeOtherRanks(const at::Tensor& tensor);

/// Marks all elements of the tensor as unknown.
void forget(const at::Tensor& tensor);
/// Stores `values`, a CPU tensor, as the tensor's contents, except for the elements flagged in `unknown` (undefined:
/// none). Stores nothing above the limit for the sum of all known values.
void keep(const at::Tensor& tensor, const at::Tensor& values, const at::Tensor& unknown,
          const Assumptions& assumptions);
/// Stores `number` as the value of all elements of a tensor with its own storage.
void keepNumber(const at::Tensor& tensor, const at::Scalar& number, const Assumptions& assumptions = {});
/// Returns whether keepNumber() stored the value of a tensor that is not small. valuesOf() then repeats the single
/// stored element.
bool holdsOneNumber(const at::Tensor& tensor);
/// Returns the number that holdsOneNumber() is true for, also of a copy on the host; nullopt: none.
std::optional<at::Scalar> numberOf(const at::Tensor& tensor);

/// What is known of a copy from the device in host memory. A copy is no read: a copy back to the device has the same
/// known contents.
struct HostCopy
{
    Known part = Known::nothing;
    at::Tensor unknown; ///< with Known::some: flags that can be expanded to the sizes of the copy
    Assumptions assumptions;
    std::optional<at::Scalar> number; ///< of all elements of a tensor that is not small
    Placeholder read = Placeholder::number; ///< what a read on the CPU counts as
};

/// Keeps what is known of the copy that `tensor`, a CPU tensor, has received: the values, with zeros for unknown
/// elements. Placeholders count as read when the program reads the tensor on the CPU, or at once without
/// noteHostReads().
void leaveOnHost(const at::Tensor& tensor, const HostCopy& copy);

/// Returns whether a CPU tensor holds a copy of unknown values that the program has not read.
bool isUnreadCopy(const at::Tensor& tensor);
/// Counts the placeholders in the CPU tensors that an op is about to read.
void readArguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
/// Counts the placeholders in a CPU tensor, before a program reads the tensor's memory without an op.
void readOnHost(const at::Tensor& tensor);
/// Promises that readOnHost() is called before reads of memory without an op.
void noteHostReads();

/// Returns the known contents of a storage, for a second storage in its place; empty: nothing is known.
c10::Storage knownContents(const c10::StorageImpl& storage);

/// Runs an op on the simulated device. Runs the op on the CPU too if the contents of all tensors that the op reads are
/// known. The results then have their true values, and their true sizes where sizes depend on values. If only a part of
/// the contents is known, the results have the values that follow from that part (partly_known.h).
void callWithKnownValues(const c10::OperatorHandle& op, torch::jit::Stack* stack);

} // namespace headroom::sim
