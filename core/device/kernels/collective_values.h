// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstdint>
#include <vector>

namespace headroom::sim {

/// A collective as its group's backend receives it. Lists of lists are flattened: the parts of all ranks for the first
/// tensor, then those for the second, and so on.
struct CollectiveCall
{
    std::vector<at::Tensor> written;
    std::vector<at::Tensor> read; ///< empty: the collective works in place
    std::int64_t ranks = 1; ///< size of the group
    std::int64_t rank = 0; ///< this process's rank in the group
    c10d::ReduceOp::RedOpType reduction = c10d::ReduceOp::UNUSED;
};

/// Each of these functions sets the values of the tensors that a collective writes, as if all other ranks held what
/// this rank holds. Elements whose values are not known become unknown.

/// all_reduce, reduce: in place.
void reduceInPlace(const CollectiveCall& call);
/// all_gather into one output tensor for each input.
void gatherInto(const CollectiveCall& call);
/// all_gather and gather into one tensor for each rank.
void gatherApart(const CollectiveCall& call);
/// all_gather of several tensors: the outputs of the first rank come first.
void gatherCoalesced(const CollectiveCall& call);
/// reduce_scatter of one input tensor for each output.
void scatterFrom(const CollectiveCall& call);
/// scatter and reduce_scatter of one tensor for each rank.
void scatterApart(const CollectiveCall& call);
/// all_to_all with one tensor for each rank.
void exchangeApart(const CollectiveCall& call);
/// all_to_all with a single tensor, split by sizes; empty sizes: equal parts.
void exchangeParts(const CollectiveCall& call, at::IntArrayRef writtenSizes, at::IntArrayRef readSizes);
/// Marks values that only another rank knows as unknown.
void forgetReceived(const CollectiveCall& call);

} // namespace headroom::sim
