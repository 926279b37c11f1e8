// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/step_processes.h"
#include "core/fit/fit.h"

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// The argument or environment variable with which a script takes a size.
struct SizeArgument
{
    /// "--batch-size", "train.micro_batch", "env:BATCH", or a name that stands in braces among the script's arguments,
    /// as "batch" of "{batch}"; empty: none is known.
    std::string name;

    bool isVariable() const noexcept { return name.starts_with("env:"); }
};

/// "--batch-size=1..64" as a SizeArgument and the sizes; without sizes, as "--batch-size", all from 1 on.
struct VariedArgument
{
    SizeArgument argument;
    Sizes sizes;
};
/// Error (badInput): no name, or sizes that cannot be parsed. `step`: as for Sizes::parse().
Result<VariedArgument> parseVaried(std::string_view text, std::int64_t step = 1);

/// The program whose steps are recorded.
struct FitProgram
{
    std::vector<std::string> words; ///< arguments of `torch-headroom record`, without sizes, GPU and output of a model
    bool isScript = false;
    std::string python; ///< of a script: the interpreter
    std::string folder; ///< working folder; empty: this process's
    SizeArgument batch, sequence, accumulation; ///< of a script
    std::string recorder; ///< of a model: path of torch-headroom-record
};

/// Whether the words name a training script: `x.py`, or `-m module`.
bool isScriptCommand(const std::vector<std::string>& words);

/// The program with the arguments `words` of `torch-headroom record`; for a model, --gpu, --batch, --seq and -o are
/// left out. `recorder`: path of torch-headroom-record; empty: the one beside this program. Error (badInput): a model,
/// and torch-headroom-record is not installed.
Result<FitProgram> fitProgram(std::vector<std::string> words, std::string recorder = {});

/// The program that recorded a step, without the interpreter of a script: a step file may name any program, so that the
/// user has to agree first. Error (badInput): the step, called `name`, cannot be recorded again.
Result<FitProgram> fitProgramOf(const StepTrace& step, const std::string& name, std::string recorder = {});

/// Whether both programs are the same at some sizes; for a script, sizes are the arguments that `program` names.
bool isSameProgram(const FitProgram& program, const FitProgram& other);

/// The command line of the program at a size, as arguments of `torch-headroom record`. Errors (badInput): a script
/// without the argument for a size that is not its own.
Result<std::vector<std::string>> wordsAt(const FitProgram& program, const StepSize& size);

/// Records steps of a program in other processes, and keeps the steps in the user's cache folder
/// ($XDG_CACHE_HOME/torch-headroom/recordings, by default ~/.cache): a step is recorded again when its command, the
/// recorder, or a file or environment variable that the program reads has changed.
class FitRecorder
{
public:
    /// What the recorder did, and what the cache has.
    struct Count
    {
        int recorded = 0;
        int kept = 0; ///< taken from the cache
        Bytes cacheBytes = 0;
        Bytes cacheLimit = 0;
        std::filesystem::path cache;
    };
    /// The oldest recordings are removed while the cache has more bytes than this.
    static constexpr Bytes defaultLimit = 4 * GiB;

    FitRecorder(FitProgram program, int jobs, Bytes limit = defaultLimit);
    ~FitRecorder();
    FitRecorder(const FitRecorder&) = delete;
    FitRecorder& operator=(const FitRecorder&) = delete;

    /// As RecordSteps. A damaged file of the cache is recorded again.
    std::vector<Result<RecordedStep>> record(std::span<const StepSize> sizes, const std::string& gpu,
                                             const std::stop_token& stop);
    /// Records the step of a size with other options of `torch-headroom record`, for a model. Error: as record().
    Result<RecordedStep> recordVariant(const StepSize& size, const std::vector<std::string>& options,
                                       const std::string& gpu, const std::stop_token& stop);
    /// Removes recordings above the limit, and counts: first the recordings that were not used for the longest time.
    /// The recordings of this run stay. enforce_limit() in packaging/python/torch_headroom/_plan/recordings.py does the
    /// same.
    Count finish();

private:
    struct Job;
    struct Known;
    /// Starts a fork server of a script for a card, once the recording of `model` has begun.
    ForkServer& startServer(const Job& model, const std::string& gpu, bool isProven);
    /// The fork server of a script for a card, which is started where it can be: after the first recording. Null: none.
    ForkServer* serverFor(const std::string& gpu);
    /// Records the first size of a script, while the fork server imports.
    std::vector<Result<RecordedStep>> recordFirst(Result<Job> job, const std::stop_token& stop);
    /// A link to the folder of the recording that fork servers take as their model.
    std::string knownRecording() const { return (*messages_.path() / "known").string(); }
    Result<Job> jobOf(const StepSize& size, const std::vector<std::string>& options, const std::string& gpu);
    std::vector<Result<RecordedStep>> run(std::vector<Result<Job>> jobs, const std::stop_token& stop);
    std::vector<Result<RecordedStep>> runOnce(std::vector<Result<Job>>& jobs, const std::stop_token& stop);
    Result<RecordedStep> resultOf(Job& job, int code);

    FitProgram program_;
    int jobs_;
    Count count_;
    TemporaryFolder messages_; ///< what the processes print; outlives the processes
    int started_ = 0;
    std::set<std::string> used_; ///< names in the cache of what this run has used
    std::chrono::nanoseconds recordingTime_{}; ///< of the latest recordings
    std::unique_ptr<Known> known_; ///< of a script: the first recording
    std::map<std::string, std::unique_ptr<ForkServer>> servers_; ///< by card; sockets are in messages_
};

} // namespace headroom
