// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/script_run.h"

#include "app/cli/python_program.h"
#include "app/recording/interpreters.h"
#include "core/base/try.h"

#include <QFileInfo>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <iostream>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace headroom::cli {
namespace {

constexpr int notStarted = 127;
constexpr int signalBase = 128; ///< a shell reports a signal as 128 + its number
constexpr std::string_view sayings = "torch_headroom.record: ";

std::string noted(const StepTrace& step, std::string_view key)
{
    const auto found
        = std::ranges::find(step.info.settings, key, [](const auto& setting) { return std::string_view(setting.first); });
    return found == step.info.settings.end() ? std::string() : found->second;
}

/// Why the script of a step cannot be run again for a comparison; empty: the script can.
std::string whyNotAgain(const StepTrace& step)
{
    if (step.info.arguments.empty())
        return "was recorded inside a program, by torch_headroom.record(), so that no command makes the step again: call "
               "torch_headroom.apply() in the program, record once more, and name that step with --executed";
    if (!step.info.simulated)
        return "was measured on a GPU, and a script is verified on the simulated card: record the script with --gpu";
    if (!step.info.policy.empty())
        return "already ran under the policy " + step.info.policy + ": expected the step without a policy";
    if (!std::filesystem::is_directory(noted(step, "folder")))
        return "was recorded in the folder " + noted(step, "folder") + ", which is not there";
    return {};
}

/// Whether a Python belongs to an environment at hand, which no step file names.
bool isAtHand(const std::string& python)
{
    const auto folder
        = [](const QString& path) { return QFileInfo(path).absolutePath(); };
    return std::ranges::any_of(findInterpreters({}, {}), [&](const Interpreter& at) {
        return folder(at.path) == folder(QString::fromStdString(python))
            && QFileInfo(QString::fromStdString(python)).fileName().startsWith(QLatin1String("python"));
    });
}

/// Returns the Python to start. A step file may come from anyone, so that only a Python at hand starts without a word
/// of the user.
Result<std::string> pythonFor(const StepTrace& step, const std::string& stepFile, const std::string& given)
{
    if (!given.empty())
        return given;
    const std::string named = noted(step, "interpreter");
    if (isAtHand(named))
        return named;
    return badInput(stepFile + " says that " + named + " runs the script, which is no Python of an environment at hand: "
                    "activate the environment, or name the Python with --python if you know it");
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

/// Ctrl+C reaches the script, too, and the script's end ends the wait.
class WithoutInterrupts
{
public:
    WithoutInterrupts()
        : before_(std::signal(SIGINT, SIG_IGN))
    {
    }
    ~WithoutInterrupts() { std::signal(SIGINT, before_); }
    WithoutInterrupts(const WithoutInterrupts&) = delete;
    WithoutInterrupts& operator=(const WithoutInterrupts&) = delete;

private:
    void (*before_)(int);
};

Error failureOf(int status, const std::string& python, std::string sentence)
{
    if (sentence.starts_with(sayings))
        return badInput(sentence.substr(sayings.size()));
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : signalBase + WTERMSIG(status);
    if (code == notStarted)
        return badInput(python + " cannot be started: name the Python of the script's environment with --python");
    return badInput("the script under the policy ended with exit code " + std::to_string(code)
                    + ", before its step was recorded; does " + python + " have this version of torch-headroom?");
}

std::vector<std::string> wordsOf(const StepTrace& step, const ScriptRun& run)
{
    std::vector<std::string> words{"-m",       "torch_headroom.record", "--json",
                                   "-o",       run.output.string(),     "--policy",
                                   run.policy.string()};
    if (run.progress)
        words.emplace_back("--progress");
    words.insert(words.end(), step.info.arguments.begin(), step.info.arguments.end());
    return words;
}

} // namespace

std::string programOf(const StepTrace& step)
{
    return noted(step, "program");
}

Status runScript(const StepTrace& step, const std::string& stepFile, const ScriptRun& run)
{
    if (const std::string why = whyNotAgain(step); !why.empty())
        return badInput(stepFile + " " + why);
    ASSIGN_OR_RETURN(const std::string python, pythonFor(step, stepFile, run.python));
    std::array<int, 2> pipe{};
    if (pipe2(pipe.data(), O_CLOEXEC) != 0)
        return Error{ErrorKind::internal, "no pipe can be made: " + std::system_category().message(errno)};
    const pid_t child = start(python, wordsOf(step, run), noted(step, "folder"), pipe);
    const int problem = errno;
    close(pipe[1]);
    if (child < 0) {
        close(pipe[0]);
        return Error{ErrorKind::internal, "no process can be started: " + std::system_category().message(problem)};
    }
    const WithoutInterrupts waiting;
    std::string sentence = passOn(pipe[0]);
    close(pipe[0]);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return failureOf(status, python, std::move(sentence));
    if (!sentence.empty())
        std::cerr << sentence << '\n';
    return {};
}

} // namespace headroom::cli
