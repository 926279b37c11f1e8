// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QByteArray>
#include <QString>

namespace headroom {

/// Splits the output of another program into lines. It accepts any output: invalid text, terminal colours, progress
/// bars with carriage returns, endless lines. Memory is bounded.
class OutputLines
{
public:
    static constexpr qsizetype longestLine = 4096;

    /// Adds output and returns the lines that it completes, unchanged, since a line may be JSON.
    QList<QByteArray> take(const QByteArray& bytes);
    QByteArray rest(); ///< returns the text after the last newline, at the end of the output

private:
    QByteArray pending_;
    bool skipping_ = false; ///< skips the rest of a line that was too long
};

/// The line as a terminal shows it, without control characters, colours and overwritten text.
QString shownLine(const QByteArray& line);

} // namespace headroom
