// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QProcess>
#include <QString>
#include <QStringList>
#include <QTimer>

#include <vector>

namespace headroom {

/// A Python that can run a script.
struct Interpreter
{
    QString path;
    QString origin; ///< "active environment"
};

/// Those that the script is likely to be run with, likeliest first: the active environment, one beside the script or
/// above it, the one used last, python3 of PATH.
std::vector<Interpreter> findInterpreters(const QString& script, const QString& lastUsed);

/// What a Python says of itself.
struct InterpreterFacts
{
    QString path;
    QString version; ///< of Python; empty: it does not answer
    QString torch; ///< empty: not installed
    bool hasPackage = false; ///< torch_headroom.record can be imported

    QString text() const; ///< "Python 3.11.7 with torch 2.11.0"
    /// Why it cannot record, and what to do; empty: it can, or nobody knows.
    QString problem() const;
};

/// Asks a Python what it has, without importing it. The latest question wins.
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
    QTimer impatience_;
    QString path_;
    QString workingFolder_;
    bool again_ = false;
};

/// The line that installs the package torch-headroom into a Python: from beside this program, or from its source tree.
QString installCommand(const QString& interpreter);

} // namespace headroom
