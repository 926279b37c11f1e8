// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headroom {

/// What a trace of torch.profiler says of ops, launches, kernels and memory. A trace of 1 GB has millions of events, so
/// these are small: texts are kept once, times are nanoseconds since the trace's zero.
struct Profile
{
    using Text = std::uint32_t; ///< of `texts`
    using Nanoseconds = std::int64_t;

    /// Each text once. Number 0 is the empty one.
    class Texts
    {
    public:
        Texts() { number(""); }
        Text number(std::string_view text);
        std::string_view operator[](Text text) const { return texts_[text]; }
        std::size_t size() const noexcept { return texts_.size(); }

    private:
        std::deque<std::string> texts_; ///< which do not move
        std::unordered_map<std::string_view, Text> numbers_;
    };

    /// What an op was called with, as the trace writes it: lists of JSON, without spaces.
    struct Arguments
    {
        Text sizes = 0; ///< empty: recorded without record_shapes
        Text strides = 0;
        Text types = 0;
        Text values = 0; ///< of numbers and lists of numbers

        friend bool operator==(const Arguments&, const Arguments&) = default;
    };

    enum class Kind : std::uint8_t { op, annotation, module };

    /// Something that lasted on a thread of the CPU.
    struct Span
    {
        Nanoseconds begin = 0;
        Nanoseconds end = 0;
        std::int64_t externalId = 0;
        std::int64_t sequence = -1; ///< of autograd: a forward op and its node in backward have the same
        Text name = 0;
        Text hierarchy = 0; ///< modules of TorchScript, where with_modules recorded them
        std::uint32_t thread = 0;
        std::uint32_t arguments = 0; ///< of `arguments`
        Kind kind = Kind::op;
    };

    /// A call of CUDA's runtime or driver.
    struct Launch
    {
        Nanoseconds begin = 0;
        Nanoseconds end = 0;
        std::int64_t correlation = 0;
        Text name = 0;
        std::uint32_t thread = 0;
    };

    /// A kernel, a copy or a fill on a GPU.
    struct Kernel
    {
        Nanoseconds begin = 0;
        Nanoseconds end = 0;
        std::int64_t correlation = 0;
        std::int64_t externalId = 0;
        Text name = 0;
        int device = 0;
    };

    /// What a kernel of NCCL did, as c10d said it to the profiler.
    struct Collective
    {
        Nanoseconds duration = 0; ///< with the wait for ranks that came later
        std::int64_t in = 0; ///< elements
        std::int64_t out = 0;
        std::int64_t groupSize = 0;
        Text name = 0; ///< "_allgather_base"
        Text elementType = 0; ///< "BFloat16"
        Text ranks = 0; ///< "[0, 1, 2, 3]", of large groups with "..." in it
    };

    /// A block that an allocator gave or took back.
    struct Block
    {
        Nanoseconds at = 0;
        Bytes bytes = 0; ///< negative: taken back
        Bytes allocated = -1; ///< in all, after it; -1: not said (torch 1.9)
        Bytes reserved = -1;
        std::uint64_t address = 0; ///< 0: not said
        int device = -1; ///< -1: the CPU
    };

    struct Device
    {
        int number = 0;
        std::string name;
        int computeCapability = 0; ///< 80, 90, …
        Bytes memory = 0;
        int multiprocessors = 0;
    };

    Texts texts;
    std::vector<Arguments> arguments{Arguments()}; ///< each once
    std::vector<Span> spans;
    std::vector<Launch> launches;
    std::vector<Kernel> kernels;
    std::vector<Collective> collectives;
    std::vector<Block> blocks;
    std::vector<Device> devices;
    std::size_t events = 0; ///< that the file has
    std::size_t impossible = 0; ///< left out: they end before they begin
};

} // namespace headroom
