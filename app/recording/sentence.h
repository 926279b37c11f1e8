// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

namespace headroom {

/// A message of core or of the recorder as a sentence in the window: begins with a capital, unless with a name, and
/// ends with a full stop.
QString sentence(const QString& message);

} // namespace headroom
