// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/fit_recorder.h"

#include "app/recording/recorder_program.h"
#include "core/base/atomic_write.h"
#include "core/base/checksum.h"
#include "core/base/json_reader.h"
#include "core/base/json_text.h"
#include "core/base/try.h"
#include "core/trace/step_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <unistd.h>

namespace headroom {
namespace {

namespace fs = std::filesystem;

fs::path cacheFolder()
{
    const char* cache = std::getenv("XDG_CACHE_HOME"); // NOLINT(concurrency-mt-unsafe): nothing sets it
    if (cache != nullptr && *cache != '\0')
        return fs::path(cache) / "torch-headroom" / "recordings";
    const char* home = std::getenv("HOME"); // NOLINT(concurrency-mt-unsafe)
    return fs::path(home != nullptr ? home : ".") / ".cache" / "torch-headroom" / "recordings";
}

/// What tells whether a file has changed; null: there is no such file.
nlohmann::ordered_json stateOf(const fs::path& file)
{
    std::error_code problem;
    const auto size = fs::file_size(file, problem);
    if (problem)
        return {};
    const auto time = fs::last_write_time(file, problem).time_since_epoch().count();
    return {fs::absolute(file, problem).string(), size, time};
}

std::string hexadecimal(std::uint64_t number)
{
    std::ostringstream out;
    out << std::hex << number;
    return out.str();
}

std::string readText(const fs::path& file)
{
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// Index of the first word of the script's own arguments; nullopt: the words name no script.
std::optional<std::size_t> findOwn(const std::vector<std::string>& words)
{
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i].ends_with(".py"))
            return i + 1;
        if (words[i] == "-m" && i + 1 < words.size())
            return i + 2;
    }
    return std::nullopt;
}

std::size_t beginOfOwn(const std::vector<std::string>& words)
{
    return findOwn(words).value_or(words.size());
}

/// Replaces `{name}` in the words from `begin` on. Returns whether there was one.
bool fillIn(std::vector<std::string>& words, std::size_t begin, const std::string& name, const std::string& value)
{
    const std::string place = "{" + name + "}";
    bool isFilled = false;
    for (std::size_t i = begin; i < words.size(); ++i)
        for (std::size_t at = words[i].find(place); at != std::string::npos; at = words[i].find(place, at)) {
            words[i].replace(at, place.size(), value);
            isFilled = true;
        }
    return isFilled;
}

/// Sets an argument among the words from `begin` on: `{name}`, the value of `--name VALUE` or `--name=VALUE`, or a new
/// word.
void setArgument(std::vector<std::string>& words, std::size_t begin, const std::string& name, const std::string& value)
{
    if (fillIn(words, begin, name, value))
        return;
    for (std::size_t i = begin; i < words.size(); ++i) {
        if (words[i].starts_with(name + "=")) {
            words[i] = name + "=" + value;
            return;
        }
        if (words[i] == name && i + 1 < words.size()) {
            words[i + 1] = value;
            return;
        }
    }
    // One letter, as in `-b 8`, takes the next word.
    if (name.size() == 2 && name.front() == '-')
        words.insert(words.end(), {name, value});
    else
        words.push_back(name + "=" + value);
}

void removeOption(std::vector<std::string>& words, const std::string& name)
{
    for (std::size_t i = 0; i < words.size();) {
        const auto at = words.begin() + static_cast<std::ptrdiff_t>(i);
        if (words[i] == name && i + 1 < words.size())
            words.erase(at, at + 2);
        else if (words[i].starts_with(name + "="))
            words.erase(at);
        else
            ++i;
    }
}

/// Sizes of a script that are not its own, with their arguments.
std::vector<std::pair<SizeArgument, std::int64_t>> givenSizes(const FitProgram& program, const StepSize& size)
{
    std::vector<std::pair<SizeArgument, std::int64_t>> sizes;
    if (size.batch > 0)
        sizes.emplace_back(program.batch, size.batch);
    if (size.sequence > 0)
        sizes.emplace_back(program.sequence, size.sequence);
    if (size.accumulation > 1 || !program.accumulation.name.empty())
        sizes.emplace_back(program.accumulation, size.accumulation);
    return sizes;
}

/// The name of a recording in the cache, of a file or folder that belongs to the recording: "<name>.hrs" and
/// "<name>.hrs.json" of a model, "<name>.json" and "<name>-…" of a script.
std::string nameInCache(const fs::path& path)
{
    const std::string name = path.filename().string();
    return name.substr(0, name.find_first_of(".-"));
}

/// The bytes of a file, or of the files in a folder; 0: another process has removed the file.
Bytes bytesOf(const fs::path& path)
{
    std::error_code problem;
    Bytes bytes = 0;
    if (!fs::is_directory(path, problem)) {
        const std::uintmax_t size = fs::file_size(path, problem);
        return problem ? 0 : static_cast<Bytes>(size);
    }
    for (const fs::directory_entry& inside : fs::directory_iterator(path, problem)) {
        const std::uintmax_t size = inside.file_size(problem);
        bytes += problem ? 0 : static_cast<Bytes>(size);
    }
    return bytes;
}

/// The sentence of a failed recording, without the name of the program that says it.
std::string withoutProgram(std::string line)
{
    for (const std::string_view name : {"torch-headroom-record: ", "torch_headroom.record: ", "torch-headroom: "})
        if (line.starts_with(name))
            line.erase(0, name.size());
    return line;
}

using Clock = std::chrono::steady_clock;

constexpr const char* forkServers = "HEADROOM_FORK_SERVERS"; ///< variable: the folder of the sockets

/// Whether this process was given fork servers.
bool hasForkServers()
{
    return std::getenv(forkServers) != nullptr; // NOLINT(concurrency-mt-unsafe): nothing sets it
}

} // namespace

Result<VariedArgument> parseVaried(std::string_view text, std::int64_t step)
{
    const std::size_t equals = text.rfind('=');
    VariedArgument varied;
    varied.argument.name = text.substr(0, equals);
    if (varied.argument.name.empty() || varied.argument.name == "env:")
        return badInput("`" + std::string(text)
                        + "`: expected an argument and sizes, such as --batch-size=1..64 or env:BATCH=1,2,4");
    if (equals == std::string_view::npos) {
        varied.sizes = Sizes::range(step, 0, step);
        return varied;
    }
    ASSIGN_OR_RETURN(varied.sizes, Sizes::parse(text.substr(equals + 1), step));
    return varied;
}

bool isScriptCommand(const std::vector<std::string>& words)
{
    return findOwn(words).has_value();
}

Result<FitProgram> fitProgram(std::vector<std::string> words, std::string recorder)
{
    FitProgram program;
    program.isScript = isScriptCommand(words);
    program.words = std::move(words);
    if (program.isScript) {
        // Options of the recorder stand before the script.
        const auto own = program.words.begin() + static_cast<std::ptrdiff_t>(beginOfOwn(program.words));
        std::vector<std::string> before(program.words.begin(), own);
        for (const char* option : {"--gpu", "-o", "--output"})
            removeOption(before, option);
        before.insert(before.end(), own, program.words.end());
        program.words = std::move(before);
        return program;
    }
    for (const char* option : {"--gpu", "--batch", "--seq", "--accumulate", "-o", "--output"})
        removeOption(program.words, option);
    program.recorder = std::move(recorder);
    if (program.recorder.empty())
        program.recorder = recorderProgram().value_or(fs::path()).string();
    if (!fs::exists(program.recorder))
        return badInput(missingRecorder);
    return program;
}

Result<FitProgram> fitProgramOf(const StepTrace& step, const std::string& name, std::string recorder)
{
    const StepInfo& info = step.info;
    const bool isScript = !info.setting("program").empty();
    if (info.arguments.empty())
        return badInput(name
                        + (isScript ? " was recorded inside a program, by torch_headroom.record(), so that no command "
                                      "records the step at other sizes"
                                    : " was not recorded from a model or a script, so that no command records the step "
                                      "at other sizes"));
    if (!info.simulated)
        return badInput(name + " was measured: expected a step that was recorded on the simulated card");
    ASSIGN_OR_RETURN(FitProgram program, fitProgram(info.arguments, std::move(recorder)));
    if (!isScript)
        return program;
    program.folder = info.setting("folder");
    if (!fs::is_directory(program.folder))
        return badInput(name + " was recorded in the folder " + program.folder + ": there is no such folder");
    return program;
}

bool isSameProgram(const FitProgram& program, const FitProgram& other)
{
    const auto words = [&](FitProgram at) {
        at.batch = program.batch;
        at.sequence = program.sequence;
        at.accumulation = program.accumulation;
        const auto one = [&](const SizeArgument& size) { return at.isScript && size.name.empty() ? 0 : 1; };
        Result<std::vector<std::string>> own = wordsAt(at, {one(at.batch), one(at.sequence), 1});
        if (own && at.isScript) // options of the recorder stand before a script
            own->erase(own->begin(), own->begin() + static_cast<std::ptrdiff_t>(beginOfOwn(*own)) - 1);
        return own ? *own : std::vector<std::string>();
    };
    return program.isScript == other.isScript && program.folder == other.folder && words(program) == words(other);
}

Result<std::vector<std::string>> wordsAt(const FitProgram& program, const StepSize& size)
{
    std::vector<std::string> words = program.words;
    if (!program.isScript) {
        const auto add = [&](const char* option, std::int64_t value, std::int64_t own) {
            if (value != own)
                words.insert(words.end(), {option, std::to_string(value)});
        };
        add("--batch", size.batch, 0);
        add("--seq", size.sequence, 0);
        add("--accumulate", size.accumulation, 1);
        return words;
    }
    const std::size_t begin = beginOfOwn(words);
    for (const auto& [argument, value] : givenSizes(program, size)) {
        if (argument.name.empty())
            return badInput("the script's argument for the size is not known: name the argument with --vary, as in "
                            "--vary --batch-size=1..64");
        if (!argument.isVariable())
            setArgument(words, begin, argument.name, std::to_string(value));
    }
    return words;
}

/// A step that is recorded, or taken from the cache.
struct FitRecorder::Job
{
    StepProcess process;
    fs::path file; ///< of a model: the step in the cache
    std::string key; ///< of a model: what decides the step
    bool isKept = false; ///< of a model: the step is in the cache
    std::string gpu; ///< of a script
    std::vector<std::string> words; ///< of a script: its words on the recorder's command line
};

/// The recording that a script's fork servers take as their model.
struct FitRecorder::Known
{
    Job job;
    Clock::duration time;
};

FitRecorder::FitRecorder(FitProgram program, int jobs, Bytes limit)
    : program_(std::move(program))
    , jobs_(jobs)
    , messages_("torch-headroom-fit")
{
    count_.cache = cacheFolder();
    count_.cacheLimit = limit;
}

FitRecorder::~FitRecorder() = default;

Result<FitRecorder::Job> FitRecorder::jobOf(const StepSize& size, const std::vector<std::string>& options,
                                            const std::string& gpu)
{
    std::error_code problem;
    fs::create_directories(count_.cache, problem);
    if (problem)
        return badInput(count_.cache.string() + " cannot be created: " + problem.message());
    ASSIGN_OR_RETURN(const fs::path messages, messages_.path());
    ASSIGN_OR_RETURN(std::vector<std::string> words, wordsAt(program_, size));
    for (const std::string& option : options)
        if (option.starts_with("--"))
            removeOption(words, option);
    words.insert(words.end(), options.begin(), options.end());
    Job job;
    StepProcess& process = job.process;
    process.folder = program_.folder;
    process.output = messages / (std::to_string(started_) + ".out");
    process.messages = messages / (std::to_string(started_) + ".err");
    ++started_;
    if (program_.isScript) {
        process.program = program_.python;
        process.arguments = {"-m", "torch_headroom._plan.recordings", gpu};
        if (!hasForkServers())
            process.environment.emplace_back(forkServers, messages.string());
        process.arguments.insert(process.arguments.end(), words.begin(), words.end());
        job.gpu = gpu;
        job.words = std::move(words);
        std::string varied;
        for (const auto& [argument, value] : givenSizes(program_, size))
            if (argument.isVariable()) {
                const std::string name = argument.name.substr(std::string_view("env:").size());
                process.environment.emplace_back(name, std::to_string(value));
                varied += name + "=" + std::to_string(value) + " ";
            }
        // The cache is keyed by variables that begin with HEADROOM_: a variable that the script reads only later
        // counts.
        if (!varied.empty())
            process.environment.emplace_back("HEADROOM_VARIED", varied);
        return job;
    }
    job.key = jsonText({words, gpu, stateOf(program_.recorder), stateOf(words.empty() ? "" : words.front())});
    job.file = count_.cache / (hexadecimal(checksum(std::as_bytes(std::span(job.key)))) + ".hrs");
    job.isKept = readText(job.file.string() + ".json") == job.key && fs::exists(job.file);
    process.program = program_.recorder;
    process.arguments = {"record"};
    process.arguments.insert(process.arguments.end(), words.begin(), words.end());
    process.arguments.insert(process.arguments.end(), {"--gpu", gpu, "-o", job.file.string()});
    return job;
}

Result<RecordedStep> FitRecorder::resultOf(Job& job, int code)
{
    if (code == notRun && !job.isKept)
        return badInput(job.process.program + " could not be started");
    if (code != 0 && !job.isKept)
        return badInput(withoutProgram(lastLine(job.process.messages)));
    if (program_.isScript) {
        if (readText(job.process.output).empty())
            return badInput(job.process.program + " ended without a recording: expected a Python with torch_headroom");
        RETURN_IF_ERROR(
            json::read(readText(job.process.output), "the answer of the recorder", [&](const json::Json& answer) {
                job.file = json::at(answer, "step", json::string);
                job.isKept = !json::at(answer, "recorded", json::boolean);
                return true;
            }));
        if (!job.isKept && !known_) {
            known_ = std::make_unique<Known>(Known{job, recordingTime_});
            std::error_code ignored;
            fs::create_directory_symlink(job.file.parent_path(), knownRecording(), ignored);
        }
    } else if (!job.isKept) {
        RETURN_IF_ERROR(writeAtomically(job.file.string() + ".json", job.key));
    }
    ASSIGN_OR_RETURN(StepTracePtr step, readStepTrace(job.file));
    ++(job.isKept ? count_.kept : count_.recorded);
    used_.insert(nameInCache(program_.isScript ? job.file.parent_path() : job.file));
    std::error_code ignored;
    fs::last_write_time(job.file, fs::file_time_type::clock::now(), ignored); // the oldest are removed first
    return RecordedStep{std::move(step), job.file};
}

std::vector<Result<RecordedStep>> FitRecorder::run(std::vector<Result<Job>> jobs, const std::stop_token& stop)
{
    std::vector<Result<RecordedStep>> results = runOnce(jobs, stop);
    std::vector<Result<Job>> damaged; // files of the cache that cannot be read
    std::vector<std::size_t> places;
    std::error_code ignored;
    for (std::size_t i = 0; i < jobs.size(); ++i)
        if (jobs[i] && jobs[i]->isKept && !results[i]) {
            fs::remove(jobs[i]->file, ignored);
            jobs[i]->isKept = false;
            damaged.push_back(std::move(jobs[i]));
            places.push_back(i);
        }
    std::vector<Result<RecordedStep>> repaired = runOnce(damaged, stop);
    for (std::size_t i = 0; i < places.size(); ++i)
        results[places[i]] = std::move(repaired[i]);
    return results;
}

std::vector<Result<RecordedStep>> FitRecorder::runOnce(std::vector<Result<Job>>& jobs, const std::stop_token& stop)
{
    std::vector<StepProcess> processes;
    for (const Result<Job>& job : jobs)
        if (job && !job->isKept)
            processes.push_back(job->process);
    const Clock::time_point begin = Clock::now();
    const std::vector<int> codes = runProcesses(processes, jobs_, stop);
    recordingTime_ = Clock::now() - begin;
    std::vector<Result<RecordedStep>> results;
    std::size_t next = 0;
    for (Result<Job>& job : jobs) {
        if (!job)
            results.emplace_back(job.error());
        else
            results.push_back(resultOf(*job, job->isKept ? 0 : codes[next++]));
    }
    return results;
}

ForkServer& FitRecorder::startServer(const Job& model, const std::string& gpu, bool isProven)
{
    StepProcess process = model.process;
    process.arguments = {"-m", "torch_headroom._record.fork_server", messages_.path()->string(), gpu, knownRecording()};
    if (!isProven) // a fork has to record the known step, to the byte
        process.arguments.insert(process.arguments.end(), model.words.begin(), model.words.end());
    process.output = process.messages = *messages_.path() / (gpu + ".log");
    servers_[gpu] = std::make_unique<ForkServer>(std::move(process), *messages_.path() / gpu,
                                                 *messages_.path() / (model.gpu + ".begun"));
    return *servers_[gpu];
}

ForkServer* FitRecorder::serverFor(const std::string& gpu)
{
    if (!known_ || hasForkServers())
        return nullptr;
    if (const auto server = servers_.find(gpu); server != servers_.end())
        return server->second.get();
    const bool isProven = std::ranges::any_of(servers_, [](const auto& other) { return other.second->isProven(); });
    if (!isProven && known_->job.gpu != gpu)
        return nullptr;
    ForkServer& server = startServer(known_->job, gpu, isProven);
    server.expect(known_->time);
    return &server;
}

std::vector<Result<RecordedStep>> FitRecorder::recordFirst(Result<Job> job, const std::stop_token& stop)
{
    const std::string gpu = job->gpu;
    ForkServer& server = startServer(*job, gpu, false);
    std::vector<Result<Job>> jobs;
    jobs.push_back(std::move(job));
    std::vector<Result<RecordedStep>> steps = run(std::move(jobs), stop);
    if (known_)
        server.expect(known_->time);
    else
        servers_.erase(gpu);
    return steps;
}

std::vector<Result<RecordedStep>> FitRecorder::record(std::span<const StepSize> sizes, const std::string& gpu,
                                                      const std::stop_token& stop)
{
    std::vector<Result<Job>> jobs;
    for (const StepSize& size : sizes)
        jobs.push_back(jobOf(size, {}, gpu));
    std::vector<Result<RecordedStep>> steps;
    if (program_.isScript && !known_ && !hasForkServers() && jobs_ > 1 && jobs.size() > 1 && jobs.front()) {
        steps = recordFirst(std::move(jobs.front()), stop);
        jobs.erase(jobs.begin());
    }
    if (ForkServer* server = serverFor(gpu))
        server->wait(stop);
    std::ranges::move(run(std::move(jobs), stop), std::back_inserter(steps));
    serverFor(gpu); // starts the server for later calls
    return steps;
}

Result<RecordedStep> FitRecorder::recordVariant(const StepSize& size, const std::vector<std::string>& options,
                                                const std::string& gpu, const std::stop_token& stop)
{
    std::vector<Result<Job>> jobs;
    jobs.push_back(jobOf(size, options, gpu));
    return run(std::move(jobs), stop).front();
}

FitRecorder::Count FitRecorder::finish()
{
    struct Entry
    {
        std::vector<fs::path> paths;
        Bytes bytes = 0;
        fs::file_time_type time = fs::file_time_type::min(); ///< of the last use
    };
    std::map<std::string, Entry> entries;
    std::error_code ignored;
    count_.cacheBytes = 0;
    for (const fs::directory_entry& at : fs::directory_iterator(count_.cache, ignored)) {
        Entry& entry = entries[nameInCache(at.path())];
        entry.paths.push_back(at.path());
        entry.time = std::max(entry.time, at.last_write_time(ignored));
        const Bytes bytes = bytesOf(at.path());
        entry.bytes += bytes;
        count_.cacheBytes += bytes;
    }
    std::vector<const Entry*> unused;
    for (const auto& [name, entry] : entries)
        if (!used_.contains(name))
            unused.push_back(&entry);
    std::ranges::sort(unused, {}, &Entry::time);
    for (const Entry* entry : unused) {
        if (count_.cacheBytes <= count_.cacheLimit)
            break;
        for (const fs::path& path : entry->paths)
            fs::remove_all(path, ignored);
        count_.cacheBytes -= entry->bytes;
    }
    return count_;
}

} // namespace headroom
