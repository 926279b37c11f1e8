// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

class QAbstractItemModel;

namespace headroom {

/// All rows of a table, and its header, as text that a spreadsheet takes.
QString tabSeparated(const QAbstractItemModel& table);

} // namespace headroom
