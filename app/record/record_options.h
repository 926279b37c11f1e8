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
    std::int64_t accumulation = 1; ///< micro-batches of an optimizer step
    std::string dtype; ///< empty: the model's own
    bool autocast = false;
    std::string optimizer = "adam";
    double momentum = 0;
    std::string loss; ///< empty: the default for the model
    std::string lifetimes; ///< empty: the model's own
    std::vector<std::string> settings; ///< KEY=VALUE
    std::vector<std::string> inputs; ///< NAME=SHAPE[:DTYPE]
    bool holdOutput = false;
    std::string policy; ///< file of the modules to checkpoint; empty: none
    std::string memoryBudget; ///< of verify: memory fraction of a plan by op; empty: no plan by op
    std::string opsPlan; ///< of verify: file of a plan by op; empty: none
    std::string solver = "dp"; ///< solver of the plan for memoryBudget
    std::string runtime = "flops";
    std::string opTimes; ///< file of op times; empty: the step's own
    bool monotone = false; ///< the plan takes the least time at the plan's peak
    double timeLimit = 0; ///< seconds of a stage; 0: the default of the device
    bool json = false;
    bool progress = false;
};

/// Add the subcommands `record` and `verify`; parsing fills `options`. `models` are the names of demo models.
/// Independent of libtorch, so that tests can parse the manual's command lines.
CLI::App* addRecordCommand(CLI::App& app, RecordOptions& options, const std::vector<std::string>& models);
CLI::App* addVerifyCommand(CLI::App& app, RecordOptions& options, const std::vector<std::string>& models);

} // namespace headroom
