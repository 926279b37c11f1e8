// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

namespace headroom::sim {

/// A program decides by small numbers (a loss scale, a count, a flag), and by masks, lengths, labels and positions,
/// which come from its data. Tensors whose storage is at most this large keep their contents, as long as these follow
/// from contents that are known; everything larger has none. Integers may be more than others: with those little is
/// computed but comparisons and sums, and all other tensors of that size are weights and activations.
inline Bytes knownValuesLimit(at::ScalarType type)
{
    return at::isIntegralType(type, /*includeBool=*/true) ? 4 * MiB : 64 * KiB;
}

/// How much of a tensor's contents is known. Of `some` each element is known or not.
enum class Known { nothing, some, all };

/// What stands behind a storage on the device, on the CPU: its known values, zeros where they are not known, and which
/// elements those are. All of one storage, so that views share both.

bool isSmall(const at::Tensor& tensor);
Known knownPart(const at::Tensor& tensor);
/// The values as a CPU tensor on the same memory; undefined where nothing of the storage is known.
at::Tensor valuesOf(const at::Tensor& tensor);
/// Which elements are not known, as a CPU tensor; undefined where all are.
at::Tensor unknownOf(const at::Tensor& tensor);
/// What known contents follow from that is not the program's data.
struct Assumptions
{
    bool invented = false; ///< a choice (even_choice.h)
    bool otherRanks = false; ///< that they hold what this one holds (collectives.h)

    Assumptions& operator|=(const Assumptions& other);
};
Assumptions assumptionsOf(const at::Tensor& tensor);
/// Other ranks were taken to hold what led to the known contents.
void assumeOtherRanks(const at::Tensor& tensor);

/// From now on nothing is known of the tensor's elements.
void forget(const at::Tensor& tensor);
/// From now on the tensor's elements are `values`, a CPU tensor, but for those that `unknown` says (undefined: none).
/// Nothing is kept where there is no room.
void keep(const at::Tensor& tensor, const at::Tensor& values, const at::Tensor& unknown,
          const Assumptions& assumptions);
/// The same number everywhere, in a tensor with a storage of its own.
void keepNumber(const at::Tensor& tensor, const at::Scalar& number);

/// What is known of a storage, for another one that stands for it; empty: nothing.
c10::Storage knownContents(const c10::StorageImpl& storage);

} // namespace headroom::sim
