// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/interpreters.h"

#include "app/recording/record_request.h"
#include "core/base/json_reader.h"

#include <QCoreApplication>
#include <QDir>
#include <QFileInfo>
#include <QStandardPaths>

#include <algorithm>
#include <utility>

namespace headroom {
namespace {

constexpr int timeoutMs = 15'000; // enough for a Python in a network folder
constexpr int levelsAbove = 3;

// Finds the packages without importing them, since the import of torch takes seconds. Nothing is imported from the
// working folder, since a step file may name that folder.
const auto probe = QStringLiteral(R"(import sys
sys.path = [folder for folder in sys.path if folder]
import importlib.metadata, importlib.util, json, os, platform
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
spec = importlib.util.find_spec("torch_headroom")
places = list(spec.submodule_search_locations or []) if spec else []
found = any(os.path.exists(os.path.join(place, name)) for place in places for name in ("record.py", "record"))
print(json.dumps({"python": platform.python_version(), "torch": version("torch"), "headroom": found}))
)");

QString tr(const char* text)
{
    return QCoreApplication::translate("Interpreters", text);
}

QString pythonIn(const QString& environment)
{
    for (const char* name : {"bin/python3", "bin/python"}) {
        const QFileInfo python(QDir(environment).filePath(QString::fromLatin1(name)));
        if (python.isFile() && python.isExecutable())
            return python.absoluteFilePath();
    }
    return {};
}

QString packageSource()
{
    const QDir program(QCoreApplication::applicationDirPath());
    for (const char* place : {"../share/torch-headroom/python", "../../packaging/python"}) {
        const QFileInfo folder(program.filePath(QString::fromLatin1(place)));
        if (folder.isDir())
            return QDir::cleanPath(folder.absoluteFilePath());
    }
    return QStringLiteral("packaging/python");
}

} // namespace

std::vector<Interpreter> findInterpreters(const QString& script, const QString& lastUsed)
{
    std::vector<Interpreter> found;
    const auto add = [&found](const QString& path, const QString& origin) {
        const bool known
            = std::any_of(found.begin(), found.end(), [&](const Interpreter& other) { return other.path == path; });
        if (!path.isEmpty() && !known)
            found.push_back({path, origin});
    };
    for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
        if (qEnvironmentVariableIsSet(variable))
            add(pythonIn(qEnvironmentVariable(variable)), tr("active environment"));
    }
    QDir folder = QFileInfo(script).absoluteDir();
    for (int level = 0; level < levelsAbove && !script.isEmpty(); ++level) {
        for (const char* name : {".venv", "venv", "env"})
            add(pythonIn(folder.filePath(QString::fromLatin1(name))),
                level == 0 ? tr("beside the script") : tr("in %1").arg(folder.dirName()));
        if (!folder.cdUp())
            break;
    }
    if (QFileInfo(lastUsed).isExecutable())
        add(lastUsed, tr("used last"));
    for (const char* name : {"python3", "python"})
        add(QStandardPaths::findExecutable(QString::fromLatin1(name)), tr("of PATH"));
    return found;
}

QString InterpreterFacts::text() const
{
    if (version.isEmpty())
        return tr("This Python does not tell a version.");
    return torch.isEmpty() ? tr("Python %1 without torch").arg(version)
                           : tr("Python %1 with torch %2").arg(version, torch);
}

QString InterpreterFacts::problem() const
{
    if (version.isEmpty() || hasPackage)
        return {};
    if (torch.isEmpty())
        return tr("This Python has no torch: choose the Python that runs the training.");
    return tr("This Python has no package torch-headroom yet: install the package with the command below.");
}

InterpreterProbe::InterpreterProbe(QObject* parent)
    : QObject(parent)
{
    process_.setStandardInputFile(QProcess::nullDevice());
    process_.setStandardErrorFile(QProcess::nullDevice());
    timeout_.setSingleShot(true);
    timeout_.setInterval(timeoutMs);
    connect(&timeout_, &QTimer::timeout, &process_, &QProcess::kill);
    connect(&process_, &QProcess::finished, this, &InterpreterProbe::read);
    connect(&process_, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
        if (error == QProcess::FailedToStart)
            read();
    });
}

InterpreterProbe::~InterpreterProbe()
{
    process_.disconnect(this);
    process_.kill();
    process_.waitForFinished();
}

void InterpreterProbe::ask(const QString& interpreter, const QString& workingFolder)
{
    path_ = interpreter;
    workingFolder_ = workingFolder;
    again_ = process_.state() != QProcess::NotRunning;
    if (again_)
        process_.kill();
    else
        start();
}

void InterpreterProbe::start()
{
    process_.setWorkingDirectory(QFileInfo(workingFolder_).isDir() ? workingFolder_ : QString());
    timeout_.start();
    process_.start(path_, {QStringLiteral("-c"), probe});
}

void InterpreterProbe::read()
{
    timeout_.stop();
    if (std::exchange(again_, false)) {
        process_.readAllStandardOutput();
        start();
        return;
    }
    const auto text = [](const json::Json& value) { return QString::fromStdString(json::string(value)); };
    const auto answer
        = json::read(process_.readAllStandardOutput().toStdString(), "python", [&](const json::Json& document) {
              return InterpreterFacts{path_, json::at(document, "python", text), json::at(document, "torch", text),
                                      json::at(document, "headroom", json::boolean)};
          });
    const InterpreterFacts facts = answer ? *answer : InterpreterFacts{path_, {}, {}, false};
    Q_EMIT answered(facts);
}

QString installCommand(const QString& interpreter)
{
    return shellLine(
        {interpreter, QStringLiteral("-m"), QStringLiteral("pip"), QStringLiteral("install"), packageSource()});
}

} // namespace headroom
