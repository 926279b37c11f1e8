// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/output_lines.h"

#include <algorithm>
#include <utility>

namespace headroom {
namespace {

constexpr char escape = '\x1b';

/// Index of the last byte of the escape sequence that begins at `at`.
qsizetype endOfEscape(const QByteArray& line, qsizetype at)
{
    if (at + 1 >= line.size() || line[at + 1] != '[')
        return std::min(at + 1, line.size() - 1);
    qsizetype end = at + 2;
    while (end < line.size() && (line[end] < 0x40 || line[end] > 0x7e))
        ++end;
    return std::min(end, line.size() - 1);
}

} // namespace

QList<QByteArray> OutputLines::take(const QByteArray& bytes)
{
    QList<QByteArray> lines;
    qsizetype begin = 0;
    while (begin < bytes.size()) {
        const qsizetype newline = bytes.indexOf('\n', begin);
        const qsizetype end = newline < 0 ? bytes.size() : newline;
        QByteArray piece = bytes.mid(begin, end - begin);
        const qsizetype back = piece.lastIndexOf('\r', piece.size() - 2);
        if (piece.size() > 1 && back >= 0) { // a progress bar that overwrites itself: only its last state is a line
            piece.remove(0, back + 1);
            pending_.clear();
            skipping_ = false;
        }
        if (!skipping_) {
            const qsizetype room = longestLine - pending_.size();
            pending_ += piece.left(room);
            skipping_ = piece.size() > room;
        }
        if (newline < 0)
            break;
        lines << std::exchange(pending_, {});
        skipping_ = false;
        begin = newline + 1;
    }
    return lines;
}

QByteArray OutputLines::rest()
{
    skipping_ = false;
    return std::exchange(pending_, {});
}

QString shownLine(const QByteArray& line)
{
    QByteArray end = line;
    while (end.endsWith('\r'))
        end.chop(1);
    QByteArray visible;
    for (qsizetype i = 0; i < end.size(); ++i) {
        const char c = end[i];
        if (c == escape)
            i = endOfEscape(end, i);
        else if (c == '\r')
            visible.clear();
        else if (c == '\b')
            visible.chop(1);
        else if (c == '\t')
            visible += "    ";
        else if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)
            visible += c;
    }
    return QString::fromUtf8(visible);
}

} // namespace headroom
