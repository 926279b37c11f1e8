// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/export/export.h"

#include <filesystem>
#include <functional>
#include <string>

class QPainter;

namespace headroom {

/// Writes a document with this title, drawn by `paint` in memory, or for a .csv the text of `table`, and replaces the
/// file at once. The suffix of the path, case-insensitive, is the format. Errors (badInput): another suffix or none, or
/// a folder that is not writable.
Status writePicture(const std::string& title, const ExportOptions& options, const std::function<void(QPainter&)>& paint,
                    const std::function<std::string()>& table, const std::filesystem::path& path);

} // namespace headroom
