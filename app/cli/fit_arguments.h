// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/fit_recorder.h"
#include "core/fit/fit.h"

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace headroom::cli {

/// The command line of `torch-headroom fit`, as given.
struct FitArguments
{
    std::string gpus, batch, sequence, vary, varySequence, varyAccumulation, share, beside, jobs, cacheSize, python,
        longestBatch;
    std::int64_t globalBatch = 0;
    std::optional<std::string> settings;
    std::vector<std::string> words; ///< a step file, or a model or script and its arguments
    std::string output, policies;
    TimeChoice times;
    bool changes = false; ///< what would help is asked for, at a single size
    bool json = false;
};

/// The program and its sizes, and the GPU of a step file for --gpu.
struct Asked
{
    FitRequest request;
    FitProgram program;
    std::string note; ///< which length decides; empty: none is looked for
};

/// Reads the command line. Errors (badInput) name the option.
Result<Asked> readArguments(FitArguments arguments);

/// An error that begins with the option's name.
Error withOption(const char* option, const Error& error);

/// Answers `fit --changes`: what would help the step of one size on the first card. Errors: more than one size or a
/// --global-batch (badInput); the step cannot be recorded; `stop` was asked for.
Result<int> runChanges(const FitArguments& arguments, const Asked& asked, FitRecorder& recorder,
                       const std::stop_token& stop);

} // namespace headroom::cli
