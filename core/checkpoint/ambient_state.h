// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/record/module_call.h"

#include <ATen/core/Generator.h>

#include <optional>
#include <utility>
#include <vector>

namespace headroom {

/// The global state on which a region's results depend: the random number generators and autocast. Captured
/// before the region runs, so that the recomputation starts in the same state.
class AmbientState
{
    struct Autocast
    {
        at::DeviceType device;
        bool enabled;
        at::ScalarType dtype;
    };

public:
    /// Captures the state. If `random`, with the generators of the CPU and of the devices of `inputs`.
    AmbientState(const Values& inputs, bool random);

    /// Restores the captured state; the destructor restores the state before that.
    class Replay
    {
    public:
        explicit Replay(const AmbientState& state);
        ~Replay();
        Replay(const Replay&) = delete;
        Replay& operator=(const Replay&) = delete;

    private:
        std::vector<std::pair<at::Generator, at::Tensor>> generators_; ///< states before
        std::vector<Autocast> autocasts_;
        bool autocastCache_;
    };

private:
    static Autocast autocastOf(at::DeviceType device);
    static void set(const Autocast& autocast);

    std::vector<std::pair<at::Generator, at::Tensor>> generators_;
    std::vector<Autocast> autocasts_; ///< the CPU's is the last
    bool autocastCache_;
};

} // namespace headroom
