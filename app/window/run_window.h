// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/cost/step_times.h"
#include "core/profile/import.h"
#include "core/snapshot/import.h"

#include <QSize>
#include <QString>

#include <functional>
#include <optional>
#include <string>

namespace headroom {

/// Options of the window from the command line. If all are empty, the window shows the start page.
struct WindowOptions
{
    QString file; ///< step file to open
    std::optional<ImportRequest> part; ///< part of a memory snapshot; nullopt: ask if there is a choice
    QString measured; ///< measured step, memory snapshot or profiler's trace to compare with; empty: none
    ProfileRequest profile; ///< step of the profiler's trace
    QString screenshot; ///< PNG file, saved when the plan is drawn; then the program exits; needs no display
    QSize size; ///< size of the window; invalid: the stored size
    QString theme; ///< "light", "dark" or empty: that of the settings
    std::optional<Bytes> budget; ///< budget of the plan; nullopt: firstBudget()
    std::string card; ///< as CardChoice::card; empty: the stored card
    bool ops = false; ///< plan by op, not by modules
    bool offload = false; ///< plans may offload, whatever the settings
    TimeChoice times;
    QString select; ///< fqn of the module to select
    std::function<Status(const StepTrace&)> checkStep; ///< of a screenshot: what the shown step lacks; may be null
};

/// Shows the window and runs until the window is closed. Creates the QApplication (offscreen for a screenshot without a
/// display). Returns the exit code of the program: 0, or 2 with a sentence on stderr if, for a screenshot, the file
/// cannot be read or the picture cannot be written.
int runWindow(int& argc, char** argv, const WindowOptions& options);

} // namespace headroom
