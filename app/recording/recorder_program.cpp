// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/recorder_program.h"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <vector>

namespace headroom {

QString sentence(const QString& message)
{
    QString text = message.trimmed();
    if (text.isEmpty())
        return text;
    const QString firstWord = text.section(QLatin1Char(' '), 0, 0);
    bool isName = false; // demo:mlp, step.hrs, /home/me/step.hrs
    for (const QChar c : firstWord.chopped(firstWord.endsWith(QLatin1Char(':')) ? 1 : 0))
        isName = isName || !c.isLetter();
    if (!isName)
        text[0] = text[0].toUpper();
    if (!text.endsWith(QLatin1Char('.')))
        text += QLatin1Char('.');
    return text;
}

std::optional<std::filesystem::path> recorderProgram()
{
    std::error_code problem;
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", problem);
    if (problem)
        return {};
    std::filesystem::path recorder = self.parent_path() / "torch-headroom-record";
    if (access(recorder.c_str(), X_OK) != 0)
        return {};
    return recorder;
}

std::string becomeRecorder(const std::filesystem::path& recorder, char** argv)
{
    std::string name = "torch-headroom"; // the name that the user typed, for help and errors
    std::vector<char*> arguments{name.data()};
    for (char** argument = argv + 1; *argument != nullptr; ++argument)
        arguments.push_back(*argument);
    arguments.push_back(nullptr);
    execv(recorder.c_str(), arguments.data());
    return recorder.string() + " cannot be started: " + std::system_category().message(errno);
}

} // namespace headroom
