// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/step_planner.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace headroom::cli {

/// Hides Qt's messages about the desktop (no XDG_RUNTIME_DIR, no D-Bus) on stderr, which do not matter for pictures.
void hideDesktopRemarks();

/// Runs `draw` with a QGuiApplication without a display, which fonts and pictures need.
Status withoutDisplay(const std::function<Status()>& draw);

struct FrontierPicture
{
    std::string title;
    std::vector<FrontierPoint> points;
    double stepMs = 0;
};
Status drawFrontier(const FrontierPicture& frontier, const std::filesystem::path& path);

} // namespace headroom::cli
