// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace headroom {

/// The command line of `torch-headroom-record record` and `verify`, as given.
struct RecordOptions
{
    std::string model;
    std::string output;
    std::string device = "sim";
    std::string gpu = "h100-80gb";
    std::int64_t batch = 0;
    std::int64_t sequence = 0;
    std::string dtype; ///< empty: the model's own
    bool autocast = false;
    std::string optimizer = "adam";
    double momentum = 0;
    std::string loss; ///< empty: what suits the model
    std::string lifetimes; ///< empty: the model's own
    std::vector<std::string> settings; ///< KEY=VALUE
    std::vector<std::string> inputs; ///< NAME=SHAPE[:DTYPE]
    bool holdOutput = false;
    std::string policy; ///< file of the modules to checkpoint; empty: none
    std::string memoryBudget; ///< of verify: share of what ops save; empty: no plan for ops
    std::string opsPlan; ///< of verify: a file with a plan for ops; empty: none
    std::string solver = "dp"; ///< of the plan for memoryBudget
    std::string runtime = "flops";
    std::string opTimes; ///< file of the ops' times; empty: those of the step
    bool monotone = false; ///< that plan is the one that takes least at its peak
    bool json = false;
    bool progress = false;
};

/// Declare the subcommands `record` and `verify`; parsing fills `options`. `models` are the names of demo models.
/// Needs no libtorch: tests parse what documents name.
CLI::App* addRecordCommand(CLI::App& app, RecordOptions& options, const std::vector<std::string>& models);
CLI::App* addVerifyCommand(CLI::App& app, RecordOptions& options, const std::vector<std::string>& models);

} // namespace headroom
