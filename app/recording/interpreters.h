// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QProcess>
#include <QString>
#include <QTimer>

#include <vector>

namespace headroom {

/// A Python interpreter that may run a script.
struct Interpreter
{
    QString path;
    QString origin; ///< "active environment"
};

/// The interpreters for a script, the most likely first: the active environment, an environment in the script's folder
/// or above, the interpreter used last, python3 of PATH. `script` empty: without environments beside a script.
std::vector<Interpreter> findInterpreters(const QString& script, const QString& lastUsed);

/// Facts about an interpreter, from the interpreter itself.
struct InterpreterFacts
{
    QString path;
    QString version; ///< version of Python; empty: the interpreter does not run
    QString torch; ///< version of torch; empty: not installed
    bool hasPackage = false; ///< torch_headroom.record can be imported

    QString text() const; ///< "Python 3.11.7 with torch 2.11.0"
    /// Why the interpreter cannot record, and what to do; empty: can record, or unknown.
    QString problem() const;
};

/// Finds the facts of an interpreter in a separate process, without importing torch. The latest request wins.
class InterpreterProbe : public QObject
{
    Q_OBJECT
public:
    explicit InterpreterProbe(QObject* parent = nullptr);
    ~InterpreterProbe() override;

    void ask(const QString& interpreter, const QString& workingFolder);

Q_SIGNALS:
    void answered(const headroom::InterpreterFacts& facts);

private:
    void start();
    void read();

    QProcess process_;
    QTimer timeout_;
    QString path_;
    QString workingFolder_;
    bool again_ = false; ///< another request came while the process ran
};

/// The command that installs the package torch-headroom into an interpreter, from a folder beside this program or from
/// the source tree.
QString installCommand(const QString& interpreter);

} // namespace headroom
