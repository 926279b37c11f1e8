// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/cost/collective_model.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headroom {

/// The ops, launches, kernels and memory events of a torch.profiler trace. A trace of 1 GB has millions of events, so
/// events are small: each text is kept once, times are nanoseconds since the trace's zero.
struct Profile
{
    using Text = std::uint32_t; ///< index in `texts`
    using Nanoseconds = std::int64_t;

    /// A table that holds each text once. Text 0 is empty.
    class Texts
    {
    public:
        Texts() { number(""); }
        Text number(std::string_view text);
        std::string_view operator[](Text text) const { return texts_[text]; }
        std::size_t size() const noexcept { return texts_.size(); }

    private:
        std::deque<std::string> texts_; ///< a deque, so that texts do not move
        std::unordered_map<std::string_view, Text> numbers_;
    };

    /// The arguments of an op, written as in the trace: JSON lists without spaces.
    struct Arguments
    {
        Text sizes = 0; ///< empty: recorded without record_shapes
        Text strides = 0;
        Text types = 0;
        Text values = 0; ///< numbers and lists of numbers

        friend bool operator==(const Arguments&, const Arguments&) = default;
    };

    enum class SpanType : std::uint8_t { op, annotation, module };

    /// A span of time on a CPU thread.
    struct Span
    {
        Nanoseconds begin = 0;
        Nanoseconds end = 0;
        std::int64_t externalId = 0;
        std::int64_t sequence = -1; ///< of autograd; a forward op and the op's backward node share the number
        Text name = 0;
        Text hierarchy = 0; ///< modules of TorchScript, with with_modules
        std::uint32_t thread = 0;
        std::uint32_t arguments = 0; ///< index in Profile::arguments
        SpanType type = SpanType::op;
    };

    /// A call of the CUDA runtime or driver.
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

    /// A NCCL kernel, as c10d described it to the profiler.
    struct Collective
    {
        Nanoseconds duration = 0; ///< includes the wait for late ranks
        std::int64_t in = 0; ///< elements
        std::int64_t out = 0;
        std::int64_t groupSize = 0;
        Text name = 0; ///< "_allgather_base"
        Text elementType = 0; ///< "BFloat16"
        Text ranks = 0; ///< "[0, 1, 2, 3]"; for large groups with "..."
    };

    /// An allocation or a free of a block.
    struct Block
    {
        Nanoseconds at = 0;
        Bytes bytes = 0; ///< negative: freed
        Bytes allocated = -1; ///< total after the event; -1: unknown (torch 1.9)
        Bytes reserved = -1;
        std::uint64_t address = 0; ///< 0: unknown
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
    std::vector<Arguments> arguments{Arguments()}; ///< without duplicates
    std::vector<Span> spans;
    std::vector<Launch> launches;
    std::vector<Kernel> kernels;
    std::vector<Collective> collectives;
    std::vector<Block> blocks;
    std::vector<Device> devices;
    std::size_t events = 0; ///< number of events in the file
    std::size_t impossible = 0; ///< number of events left out for an end before the begin
};

/// A training step in a trace: all events that begin in this window.
struct ProfileWindow
{
    std::string name; ///< "ProfilerStep#4"
    std::int64_t number = 0; ///< 4
    Profile::Nanoseconds begin = 0;
    Profile::Nanoseconds end = 0; ///< exclusive
    std::size_t spans = 0;
    bool whole = true; ///< false: the trace begins or ends inside the window
};

/// Returns the steps of a trace in order: the steps named by the profiler (ProfilerStep#N). Without names, the
/// windows between the ends of Optimizer.step, counted from 1; without those, the whole trace. A step with less than
/// half of the spans of the fullest step is not whole: the profiler's last step may be empty.
std::vector<ProfileWindow> profileWindows(const Profile& profile);

/// Returns the step with this number, or without a number the last whole step. Error (badInput), beginning with
/// `name`: no step has this number.
Result<ProfileWindow> chooseWindow(const std::vector<ProfileWindow>& windows, std::optional<std::int64_t> number,
                                   const std::string& name);

/// Returns the NCCL kernels of a trace, as far as the trace gives sizes. A kernel's time includes the wait for the last
/// rank, so for each size the fastest kernel shows the collective.
std::vector<CollectiveSample> collectivesOf(const Profile& profile, std::int64_t ranksPerNode);

} // namespace headroom
