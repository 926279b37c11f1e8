// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

namespace headroom {

/// A message of core or of the recorder as a sentence for the window: with a capital, unless it begins with a name, and
/// a full stop.
QString sentence(const QString& message);

} // namespace headroom
