// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/kernels/collective_values.h"

#include "core/device/known_storage.h"
#include "core/device/simulated_state.h"

#include <algorithm>
#include <cstddef>

namespace headroom::sim {
namespace {

using at::Tensor;
using c10d::ReduceOp;

bool hasValues(const Tensor& tensor)
{
    return !isSimulated(tensor.device()) || knownPart(tensor) != Known::nothing;
}

void forgetOnDevice(const Tensor& tensor)
{
    if (isSimulated(tensor.device()))
        forget(tensor);
}

bool isSameMemory(const Tensor& one, const Tensor& other)
{
    return one.is_alias_of(other) && one.storage_offset() == other.storage_offset();
}

void copyKnown(const Tensor& to, const Tensor& from)
{
    if (to.numel() != from.numel() || !hasValues(from))
        forgetOnDevice(to);
    else if (!isSameMemory(to, from))
        to.copy_(from.view_as(to));
}

void reduce(const Tensor& tensor, const CollectiveCall& call)
{
    // The sum of booleans is true if any of them is: it does not change.
    if (!hasValues(tensor) || tensor.scalar_type() == at::kBool)
        return;
    if (call.reduction == ReduceOp::SUM)
        tensor.mul_(call.ranks);
    else if (call.reduction == ReduceOp::PRODUCT)
        tensor.pow_(call.ranks);
    else if (call.reduction == ReduceOp::BXOR && call.ranks % 2 == 0)
        tensor.zero_();
    // Mean, minimum and maximum of equal numbers are that number.
}

/// Returns the equal parts of a tensor, one for each rank; empty if it cannot be divided so.
std::vector<Tensor> parts(const Tensor& whole, const CollectiveCall& call)
{
    if (!whole.is_contiguous() || whole.numel() % call.ranks != 0)
        return {};
    return whole.view({call.ranks, whole.numel() / call.ranks}).unbind(0);
}

std::size_t own(const CollectiveCall& call)
{
    return static_cast<std::size_t>(call.rank);
}

void exchangeUnequal(const CollectiveCall& call, at::IntArrayRef writtenSizes, at::IntArrayRef readSizes)
{
    // Every other rank sends the part that this rank sends to itself.
    const Tensor mine = call.read[0].split_with_sizes(readSizes)[own(call)];
    for (const Tensor& part : call.written[0].split_with_sizes(writtenSizes))
        copyKnown(part, mine);
}

} // namespace

void reduceInPlace(const CollectiveCall& call)
{
    for (const Tensor& tensor : call.written)
        reduce(tensor, call);
}

void gatherInto(const CollectiveCall& call)
{
    for (std::size_t i = 0; i < std::min(call.written.size(), call.read.size()); ++i) {
        if (!hasValues(call.read[i])) {
            forgetOnDevice(call.written[i]);
            continue;
        }
        for (const Tensor& part : parts(call.written[i], call))
            copyKnown(part, call.read[i]);
    }
}

void gatherApart(const CollectiveCall& call)
{
    for (std::size_t i = 0; i < call.written.size(); ++i)
        copyKnown(call.written[i], call.read.at(i / static_cast<std::size_t>(call.ranks)));
}

void gatherCoalesced(const CollectiveCall& call)
{
    for (std::size_t i = 0; i < call.written.size(); ++i)
        copyKnown(call.written[i], call.read.at(i % call.read.size()));
}

void scatterFrom(const CollectiveCall& call)
{
    for (std::size_t i = 0; i < std::min(call.written.size(), call.read.size()); ++i) {
        const std::vector<Tensor> all = hasValues(call.read[i]) ? parts(call.read[i], call) : std::vector<Tensor>();
        if (all.empty()) {
            forgetOnDevice(call.written[i]);
            continue;
        }
        copyKnown(call.written[i], all[own(call)]);
        reduce(call.written[i], call);
    }
}

void scatterApart(const CollectiveCall& call)
{
    for (std::size_t i = 0; i < call.written.size(); ++i) {
        const std::size_t part = i * static_cast<std::size_t>(call.ranks) + own(call);
        if (part >= call.read.size()) { // another rank holds the input
            forgetOnDevice(call.written[i]);
            continue;
        }
        copyKnown(call.written[i], call.read[part]);
        reduce(call.written[i], call);
    }
}

void exchangeApart(const CollectiveCall& call)
{
    for (const Tensor& tensor : call.written)
        copyKnown(tensor, call.read.at(own(call)));
}

void exchangeParts(const CollectiveCall& call, at::IntArrayRef writtenSizes, at::IntArrayRef readSizes)
{
    if (!hasValues(call.read[0])) {
        forgetOnDevice(call.written[0]);
        return;
    }
    if (!writtenSizes.empty() && !readSizes.empty())
        return exchangeUnequal(call, writtenSizes, readSizes);
    const std::vector<Tensor> read = parts(call.read[0], call);
    for (const Tensor& part : parts(call.written[0], call))
        copyKnown(part, read.at(own(call)));
}

void forgetReceived(const CollectiveCall& call)
{
    for (const Tensor& tensor : call.written)
        forgetOnDevice(tensor);
}

} // namespace headroom::sim
