// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

class QAbstractItemModel;

namespace headroom {

/// The header and all rows of a table as tab-separated text, for spreadsheets.
QString tabSeparated(const QAbstractItemModel& table);

} // namespace headroom
