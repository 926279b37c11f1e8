// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/record/module_call.h"

#include <ATen/core/Generator.h>

#include <optional>
#include <utility>
#include <vector>

namespace headroom {

/// The global state that determines a region's results: the state of the random number generators, and autocast.
/// Captured before the region runs, so that the region can run again in the same state.
class AmbientState
{
    struct Autocast
    {
        at::DeviceType device;
        bool enabled;
        at::ScalarType dtype;
    };

public:
    /// Captures the state. Generators, captured only if `random`, are the CPU's and those of the devices of `inputs`.
    AmbientState(const Values& inputs, bool random);

    /// Restores the captured state while it lives; its end restores the state found at construction.
    class Replay
    {
    public:
        explicit Replay(const AmbientState& state);
        ~Replay();
        Replay(const Replay&) = delete;
        Replay& operator=(const Replay&) = delete;

    private:
        std::vector<std::pair<at::Generator, at::Tensor>> generators_; ///< state at construction
        std::vector<Autocast> autocasts_;
        bool autocastCache_;
    };

private:
    std::vector<std::pair<at::Generator, at::Tensor>> generators_;
    std::vector<Autocast> autocasts_; ///< the CPU's is the last
    bool autocastCache_;
};

} // namespace headroom
