// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/cli/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace headroom {

namespace {

constexpr int patienceMs = 120'000;

struct Pipe
{
    std::array<int, 2> ends{-1, -1};
    Pipe()
    {
        if (pipe2(ends.data(), O_CLOEXEC) != 0)
            throw std::runtime_error("no pipe for the program under test");
    }
    ~Pipe()
    {
        closeEnd(0);
        closeEnd(1);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    void closeEnd(std::size_t end)
    {
        if (ends[end] >= 0)
            close(ends[end]);
        ends[end] = -1;
    }
};

/// In the child: becomes the program.
[[noreturn]] void become(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                         const std::vector<std::pair<std::string, std::string>>& environment, int out, int err)
{
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, 0);
    dup2(out, 1);
    dup2(err, 2);
    for (const auto& [name, value] : environment) {
        if (value.empty())
            unsetenv(name.c_str());
        else
            setenv(name.c_str(), value.c_str(), 1);
    }
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (const std::string& argument : arguments)
        argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    execv(program.c_str(), argv.data());
    _exit(127);
}

/// Reads both ends until the program has closed them; false when its time is over.
bool readBoth(Pipe& out, Pipe& err, Finished& finished)
{
    std::array<pollfd, 2> watched{pollfd{out.ends[0], POLLIN, 0}, pollfd{err.ends[0], POLLIN, 0}};
    const std::array<std::string*, 2> texts{&finished.out, &finished.err};
    while (watched[0].fd >= 0 || watched[1].fd >= 0) {
        const int ready = poll(watched.data(), watched.size(), patienceMs);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return false;
        for (std::size_t end = 0; end < watched.size(); ++end) {
            if (watched[end].fd < 0 || watched[end].revents == 0)
                continue;
            std::array<char, 65536> buffer{};
            const ssize_t count = read(watched[end].fd, buffer.data(), buffer.size());
            if (count > 0)
                texts[end]->append(buffer.data(), static_cast<std::size_t>(count));
            else
                watched[end].fd = -1;
        }
    }
    return true;
}

std::filesystem::path headroomBinary()
{
    return std::filesystem::path(HEADROOM_BIN_DIR) / "torch-headroom";
}

/// Without a display and without Qt's offscreen plugin asked for: a subcommand must not need either. And without the
/// settings of whoever runs the tests.
std::vector<std::pair<std::string, std::string>> headroomEnvironment()
{
    const std::filesystem::path home = std::filesystem::path(HEADROOM_BIN_DIR).parent_path() / "tests/home/cli";
    std::filesystem::create_directories(home);
    return {{"DISPLAY", ""},
            {"WAYLAND_DISPLAY", ""},
            {"QT_QPA_PLATFORM", ""},
            {"XDG_RUNTIME_DIR", ""},
            {"HOME", home.string()},
            {"XDG_CONFIG_HOME", home.string()},
            {"XDG_DATA_HOME", home.string()}};
}

} // namespace

Finished runProgram(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                    const std::vector<std::pair<std::string, std::string>>& environment)
{
    Pipe out;
    Pipe err;
    const pid_t child = fork();
    if (child < 0)
        throw std::runtime_error("no process for the program under test");
    if (child == 0)
        become(program, arguments, environment, out.ends[1], err.ends[1]);
    out.closeEnd(1);
    err.closeEnd(1);
    Finished finished;
    if (!readBoth(out, err, finished))
        kill(child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    finished.exitCode = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return finished;
}

Finished headroomProgram(const std::vector<std::string>& arguments)
{
    return runProgram(headroomBinary(), arguments, headroomEnvironment());
}

bool killedProgram(const std::vector<std::string>& arguments, const std::function<bool()>& isTime)
{
    const auto environment = headroomEnvironment();
    const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const pid_t child = fork();
    if (child < 0)
        throw std::runtime_error("no process for the program under test");
    if (child == 0)
        become(headroomBinary(), arguments, environment, nothing, nothing);
    close(nothing);
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (isTime()) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            break;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return WIFSIGNALED(status);
}

std::vector<std::string> keysOf(const nlohmann::ordered_json& object)
{
    std::vector<std::string> keys;
    if (object.is_object()) {
        for (const auto& [key, value] : object.items())
            keys.push_back(key);
    }
    return keys;
}

bool isErrorLine(const std::string& err)
{
    return err.starts_with("torch-headroom: ") && std::ranges::count(err, '\n') == 1 && err.ends_with('\n');
}

std::string readFile(const std::filesystem::path& path)
{
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

void writeFile(const std::filesystem::path& path, std::string_view content)
{
    std::ofstream out(path, std::ios::binary);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (!out.flush())
        throw std::runtime_error("cannot write " + path.string());
}

std::vector<std::string> filesIn(const std::filesystem::path& folder)
{
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

} // namespace headroom
