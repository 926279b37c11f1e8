// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/record/module_call.h"

#include <ATen/core/Generator.h>

#include <optional>
#include <utility>
#include <vector>

namespace headroom {

/// What of a region's surroundings decides its results: the state of the random number generators, and autocast. Taken
/// before the region runs, so that it can be run again in the same surroundings.
class AmbientState
{
    struct Autocast
    {
        at::DeviceType device;
        bool enabled;
        at::ScalarType dtype;
    };

public:
    /// Generators are the CPU's and those of the devices of `inputs`; only when `random`.
    AmbientState(const Values& inputs, bool random);

    /// The surroundings are as they were while it lives; afterwards they are what they have been before it.
    class Replay
    {
    public:
        explicit Replay(const AmbientState& state);
        ~Replay();
        Replay(const Replay&) = delete;
        Replay& operator=(const Replay&) = delete;

    private:
        std::vector<std::pair<at::Generator, at::Tensor>> generators_; ///< as found
        std::vector<Autocast> autocasts_;
        bool autocastCache_;
    };

private:
    std::vector<std::pair<at::Generator, at::Tensor>> generators_;
    std::vector<Autocast> autocasts_; ///< the CPU's is the last
    bool autocastCache_;
};

} // namespace headroom
