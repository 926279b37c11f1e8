// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/cost/step_times.h"
#include "core/profile/import.h"
#include "core/snapshot/import.h"

#include <QSize>
#include <QString>

#include <optional>
#include <string>

namespace headroom {

/// What the window is asked for on the command line. Everything may be left empty: an empty page that says what can be
/// opened.
struct WindowOptions
{
    QString file; ///< step file to open
    std::optional<ImportRequest> part; ///< of a memory snapshot; none: asked for where there is a choice
    QString measured; ///< measured step, memory snapshot or profiler's trace to compare with; empty: none
    ProfileRequest profile; ///< which step of the trace
    QString screenshot; ///< PNG to save once the plan is drawn; then the program exits. Needs no display
    QSize size; ///< of the window; invalid: as it was left
    QString theme; ///< "light", "dark" or empty: as the settings say
    std::optional<Bytes> budget; ///< to plan for; default: chosen from the device and the frontier
    bool ops = false; ///< plan single ops, not modules
    TimeChoice times;
    QString select; ///< module to select, by fqn
};

/// Shows the window and runs until it is closed; makes the QApplication itself (offscreen for a screenshot when there
/// is no display). Returns the exit code of the program: 0, or 2 when a screenshot was asked for and the file cannot be
/// read or the picture cannot be written (one sentence on stderr).
int runWindow(int& argc, char** argv, const WindowOptions& options);

} // namespace headroom
