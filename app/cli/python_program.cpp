// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/python_program.h"

#include "app/recording/interpreters.h"
#include "core/base/try.h"

#include <QFileInfo>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <iostream>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace headroom::cli {

namespace {

// Looks for the package without importing it: torch takes seconds. A mere folder of that name is not the package.
constexpr const char* hasPackage = "import importlib.util, os, sys\n"
                                   "spec = importlib.util.find_spec('torch_headroom')\n"
                                   "places = list(spec.submodule_search_locations or []) if spec else []\n"
                                   "sys.exit(not any(os.path.exists(os.path.join(p, 'record.py')) for p in places))\n";
constexpr int notStarted = 127;

std::string pythonOfEnvironment()
{
    for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
        const char* environment = std::getenv(variable);
        if (environment == nullptr || *environment == '\0')
            continue;
        const std::filesystem::path python = std::filesystem::path(environment) / "bin" / "python3";
        if (access(python.c_str(), X_OK) == 0)
            return python.string();
    }
    return "python3";
}

/// Runs a program to its end. Returns the exit code, or notStarted.
int run(const std::string& program, const std::vector<std::string>& arguments)
{
    const pid_t child = fork();
    if (child == 0) {
        become(program, arguments);
        _exit(notStarted);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : notStarted;
}

} // namespace

void become(const std::string& program, std::vector<std::string> arguments)
{
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (std::string& argument : arguments)
        argv.push_back(argument.data());
    argv.push_back(nullptr);
    execvp(program.c_str(), argv.data());
}

bool namesScript(char** arguments)
{
    for (; *arguments != nullptr; ++arguments) {
        const std::string_view argument = *arguments;
        if ((argument == "-o" || argument == "--output") && arguments[1] != nullptr) {
            ++arguments; // the only path that is neither a script nor a model
            continue;
        }
        if (argument == "-m" || argument.ends_with(".py"))
            return true;
        if (argument.starts_with("demo:") || argument.ends_with(".pt2") || argument.ends_with(".pt"))
            return false;
    }
    return false;
}

Result<std::string> pythonWithPackage()
{
    const std::string python = pythonOfEnvironment();
    const int answer = run(python, {"-c", hasPackage});
    if (answer == notStarted)
        return badInput("python3 cannot be started to record a training script; activate the script's environment");
    if (answer != 0)
        return badInput(python
                        + " lacks the package torch-headroom, needed to record a training script; install "
                          "torch-headroom into the script's environment: "
                        + python + " -m pip install packaging/python");
    return python;
}

std::string becomePython(char** arguments)
{
    const Result<std::string> found = pythonWithPackage();
    if (!found)
        return found.error().message;
    const std::string& python = *found;
    std::vector<std::string> all{"-m", "torch_headroom.record"};
    for (; *arguments != nullptr; ++arguments)
        all.emplace_back(*arguments);
    become(python, std::move(all));
    return python + " cannot be started: " + std::system_category().message(errno);
}

namespace {

constexpr int signalBase = 128; ///< a shell reports a signal as 128 + its number
constexpr std::string_view sayings = "torch_headroom.record: ";

std::string folderOf(const StepTrace& step)
{
    return std::string(step.info.setting("folder"));
}

/// Why the script of a step cannot be run again for a comparison; empty: the script can.
std::string whyNotAgain(const StepTrace& step)
{
    if (step.info.arguments.empty())
        return "was recorded inside a program, by torch_headroom.record(), so that no command makes the step again: "
               "call "
               "torch_headroom.apply() in the program, record once more, and name that step with --executed";
    if (!step.info.simulated)
        return "was measured on a GPU, and a script is verified on the simulated card: record the script with --gpu";
    if (!step.info.policy.empty())
        return "already ran under the policy " + step.info.policy + ": expected the step without a policy";
    if (!std::filesystem::is_directory(folderOf(step)))
        return "was recorded in the folder " + folderOf(step) + ": there is no such folder";
    return {};
}

/// Whether a Python belongs to an environment at hand, which no step file names.
bool isAtHand(const std::string& python)
{
    const auto folder = [](const QString& path) { return QFileInfo(path).absolutePath(); };
    return std::ranges::any_of(findInterpreters({}, {}), [&](const Interpreter& at) {
        return folder(at.path) == folder(QString::fromStdString(python))
            && QFileInfo(QString::fromStdString(python)).fileName().startsWith(QLatin1String("python"));
    });
}

/// Prints the lines of a pipe on stderr, but for the last sentence of the recorder, which is returned.
std::string passOn(int pipe)
{
    std::string sentence;
    std::string line;
    const auto take = [&] {
        if (line.starts_with(sayings)) {
            if (!sentence.empty())
                std::cerr << sentence << '\n';
            sentence = line;
        } else {
            std::cerr << line << '\n';
        }
        line.clear();
    };
    std::array<char, 4096> block{};
    while (true) {
        const ssize_t count = read(pipe, block.data(), block.size());
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        for (const char c : std::string_view(block.data(), static_cast<std::size_t>(count))) {
            if (c == '\n')
                take();
            else
                line += c;
        }
        std::cerr.flush();
    }
    if (!line.empty())
        take();
    return sentence;
}

/// Starts a program in a folder, with stdout thrown away and stderr in a pipe. Returns the process; -1: errno says why.
pid_t start(const std::string& program, const std::vector<std::string>& arguments, const std::string& folder,
            const std::array<int, 2>& pipe)
{
    const pid_t child = fork();
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (chdir(folder.c_str()) != 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(nothing, STDOUT_FILENO) < 0
        || dup2(pipe[1], STDERR_FILENO) < 0)
        _exit(notStarted);
    become(program, arguments);
    _exit(notStarted);
}

volatile std::sig_atomic_t waitedFor = 0; ///< process of the script

/// While the script runs, its end ends the wait, so that what was made for it is removed. Ctrl+C reaches the script by
/// itself; a request to end is passed on.
class Waiting
{
public:
    explicit Waiting(pid_t script)
        : interrupt_(std::signal(SIGINT, SIG_IGN))
    {
        waitedFor = script;
        terminate_ = std::signal(SIGTERM, passOnRequest);
    }
    ~Waiting()
    {
        std::signal(SIGTERM, terminate_);
        std::signal(SIGINT, interrupt_);
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

private:
    using Handler = void (*)(int);
    static void passOnRequest(int number) { kill(static_cast<pid_t>(waitedFor), number); }

    Handler interrupt_;
    Handler terminate_;
};

Error failureOf(int code, const std::string& python, const std::string& sentence)
{
    if (sentence.starts_with(sayings))
        return badInput(sentence.substr(sayings.size()));
    if (code == notStarted)
        return badInput(python + " cannot be started: name the Python of the script's environment with --python");
    return badInput("the script under the policy ended with exit code " + std::to_string(code)
                    + ", before a step was recorded; does " + python + " have this version of torch-headroom?");
}

std::vector<std::string> wordsOf(const StepTrace& step, const ScriptRun& run)
{
    std::vector<std::string> words{"-m",       "torch_headroom.record", "--json", "-o", run.output.string(),
                                   "--policy", run.policy.string()};
    if (run.progress)
        words.emplace_back("--progress");
    words.insert(words.end(), step.info.arguments.begin(), step.info.arguments.end());
    return words;
}

} // namespace

std::string programOf(const StepTrace& step)
{
    return std::string(step.info.setting("program"));
}

Result<std::string> pythonOfStep(const StepTrace& step, const std::string& stepFile, const std::string& given)
{
    if (!given.empty())
        return given;
    // A step file may come from anyone, so that only a Python at hand starts without a word of the user.
    const std::string named(step.info.setting("interpreter"));
    if (isAtHand(named))
        return named;
    return badInput(stepFile + " says that " + named
                    + " runs the script, but that is no Python of an environment at hand: activate the environment, or "
                      "name a trusted Python with --python");
}

Result<int> runScript(const StepTrace& step, const std::string& stepFile, const ScriptRun& run)
{
    if (const std::string why = whyNotAgain(step); !why.empty())
        return badInput(stepFile + " " + why);
    ASSIGN_OR_RETURN(const std::string python, pythonOfStep(step, stepFile, run.python));
    std::array<int, 2> pipe{};
    if (pipe2(pipe.data(), O_CLOEXEC) != 0)
        return Error{ErrorKind::internal, "no pipe can be made: " + std::system_category().message(errno)};
    const pid_t child = start(python, wordsOf(step, run), folderOf(step), pipe);
    const int problem = errno;
    close(pipe[1]);
    if (child < 0) {
        close(pipe[0]);
        return Error{ErrorKind::internal, "no process can be started: " + std::system_category().message(problem)};
    }
    const Waiting waiting(child);
    const std::string sentence = passOn(pipe[0]);
    close(pipe[0]);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : signalBase + WTERMSIG(status);
    if (code != 0 && code < signalBase)
        return failureOf(code, python, sentence);
    if (!sentence.empty())
        std::cerr << sentence << '\n';
    return code;
}

} // namespace headroom::cli
