// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/models/tab_separated.h"

#include <QAbstractItemModel>
#include <QStringList>

namespace headroom {

QString tabSeparated(const QAbstractItemModel& table)
{
    // A named result type: a deduced one would be a QStringBuilder that refers to the temporary it was built from.
    const auto line = [&](auto cell) -> QString {
        QStringList cells;
        for (int column = 0; column < table.columnCount(); ++column)
            cells << cell(column);
        return cells.join(QLatin1Char('\t')) + QLatin1Char('\n');
    };
    QString text = line([&](int column) { return table.headerData(column, Qt::Horizontal).toString(); });
    for (int row = 0; row < table.rowCount(); ++row)
        text += line([&](int column) { return table.index(row, column).data().toString(); });
    return text;
}

} // namespace headroom
