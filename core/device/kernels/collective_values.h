// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstdint>
#include <vector>

namespace headroom::sim {

/// A collective as its group's backend gets it. Lists of lists are one list here: of each tensor the parts of all
/// ranks.
struct CollectiveCall
{
    std::vector<at::Tensor> written;
    std::vector<at::Tensor> read; ///< empty: in place
    std::int64_t ranks = 1; ///< of the group
    std::int64_t rank = 0; ///< this one's
    c10d::ReduceOp::RedOpType reduction = c10d::ReduceOp::UNUSED;
};

/// Each of these gives the tensors that a collective writes the values that they have when all other ranks hold what
/// this one holds, as far as these are known; nothing is known of the rest from then on.

/// all_reduce, reduce: in place.
void reduceInPlace(const CollectiveCall& call);
/// all_gather into one tensor for each that is read.
void gatherInto(const CollectiveCall& call);
/// all_gather, gather into tensors of their own.
void gatherApart(const CollectiveCall& call);
/// The same of several tensors: first those of the first rank.
void gatherCoalesced(const CollectiveCall& call);
/// reduce_scatter of one tensor for each that is written.
void scatterFrom(const CollectiveCall& call);
/// scatter, reduce_scatter of tensors of their own.
void scatterApart(const CollectiveCall& call);
/// all_to_all of tensors of their own.
void exchangeApart(const CollectiveCall& call);
/// all_to_all of one tensor; empty sizes: equal parts.
void exchangeParts(const CollectiveCall& call, at::IntArrayRef writtenSizes, at::IntArrayRef readSizes);
/// What another rank alone knows.
void forgetReceived(const CollectiveCall& call);

} // namespace headroom::sim
