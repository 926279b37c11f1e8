// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/export/export.h"

#include <QString>

#include <functional>
#include <string>

namespace headroom::cli {

/// Hides Qt's messages about the desktop (no XDG_RUNTIME_DIR, no D-Bus) on stderr, since such messages do not matter
/// for pictures.
void hideDesktopRemarks();

/// The name of a file as Qt takes it. Error (badInput): the name is not UTF-8.
Result<QString> qtName(const std::string& file);

/// Runs `draw` with a QApplication, for fonts and pictures, and without a display. Error: as `draw`.
Status withoutDisplay(const std::function<Status()>& draw);

/// Draws a frontier to a file. Error: as exportFrontier().
Status drawFrontier(const FrontierExport& frontier, const std::filesystem::path& path,
                    const ExportOptions& options = {});

/// Draws what fits to a file. Error: as exportFit().
Status drawFit(const FitExport& fit, const std::filesystem::path& path);

} // namespace headroom::cli
