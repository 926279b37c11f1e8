// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/python_program.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
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
        return badInput("a training script is recorded by python3, which cannot be started; activate the environment "
                        "that the script runs in");
    if (answer != 0)
        return badInput("a training script is recorded by the Python package torch-headroom, which " + python
                        + " does not have; install it into the environment that the script runs in: " + python
                        + " -m pip install packaging/python");
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

} // namespace headroom::cli
