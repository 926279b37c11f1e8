// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/memory_levels.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>

namespace headroom {

/// The answer of `torch-headroom verify`: a step that ran under a plan beside the prediction. It is the same for a
/// model and a script, and for plans by module and by op.
struct VerificationReport
{
    /// Values of the step under the plan beside those of the plain step.
    struct Values
    {
        bool compared = false;
        std::string whyNot; ///< why not compared
        std::string device; ///< "the CPU"
        std::size_t parameters = 0;
        double largestDifference = 0;
        std::string parameter; ///< with the largest difference; empty: all gradients are equal to the bit
        std::string unrepeatable; ///< a parameter that differs between two plain steps; empty: none
        std::optional<std::string> buffer; ///< first buffer that differs; nullopt: buffers were not compared

        bool equal() const { return parameter.empty() && buffer.value_or(std::string()).empty(); }
    };

    /// A plan by module.
    struct Modules
    {
        Bytes budget = 0;
        int worldSize = 1;
        std::size_t checkpointed = 0; ///< number of modules
        double stepMs = 0; ///< forward and backward without the policy
        double predictedRecomputeMs = 0;
        double executedRecomputeMs = 0; ///< beyond what the program recomputes without the policy
    };

    /// What a plan by op saves and repeats.
    struct Work
    {
        Bytes savedBytes = 0;
        double recomputeFlops = 0;
        std::size_t repeatedOps = 0;
    };

    /// The step under a plan by op, on one device.
    struct OnDevice
    {
        LevelComparison memory;
        Bytes predictedPeak = 0;
        Work planned;
        Work executed;
    };

    /// Peaks of a real device's allocator.
    struct Peaks
    {
        Bytes requested = 0;
        Bytes allocated = 0;
        Bytes active = 0;
        Bytes reserved = 0;
    };

    /// A plan by op.
    struct Ops
    {
        double fraction = 0;
        std::string solver;
        std::string runtime;
        Work planned;
        Work executed;
        std::optional<Peaks> plainPeaks, plannedPeaks; ///< on a real device
        std::optional<OnDevice> cpu; ///< the CPU's step under a plan for the same fraction, if requested
    };

    std::string model;
    std::string gpu; ///< name of the card
    std::string device; ///< for people: "NVIDIA A100"
    bool simulated = true;
    Bytes baselinePeak = 0; ///< without the plan
    Bytes predictedPeak = 0;
    LevelComparison memory;
    std::optional<Modules> modules; ///< of a plan by module
    std::optional<Ops> ops; ///< of a plan by op
    Values values;
};

/// Returns the first disagreement with the prediction or the budget as an error; success if there is none.
Status verdict(const VerificationReport& report);

/// The document of `torch-headroom verify --json`; `status` is the verdict.
nlohmann::ordered_json toJson(const VerificationReport& report, const Status& status);

/// The printed text.
std::string textOf(const VerificationReport& report);

} // namespace headroom
