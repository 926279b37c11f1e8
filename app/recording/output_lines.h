// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QByteArray>
#include <QString>
#include <QStringList>

namespace headroom {

/// Lines of what another program prints, whatever it prints: bytes that are no text, colours for a terminal, bars that
/// go back to the start of the line, a line without an end. What is kept is bounded.
class OutputLines
{
public:
    static constexpr qsizetype longestLine = 4096;

    /// The lines that `bytes` completes, as they came: a line may be JSON.
    QList<QByteArray> take(const QByteArray& bytes);
    QByteArray rest(); ///< what came after the last end of line; the end of the output makes it a line

private:
    QByteArray pending_;
    bool skipping_ = false; ///< the rest of a line that was too long
};

/// A line as a terminal would show it: without control characters and colours, what was overwritten left out.
QString shownLine(const QByteArray& line);

} // namespace headroom
