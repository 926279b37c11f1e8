// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/fit/fit.h"
#include "core/plan/plan.h"
#include "core/policy/step_planner.h"
#include "core/sac/module_info.h"
#include "core/timeline/live_tree.h"
#include "core/timeline/timeline.h"
#include "views/plot/tradeoff_curve.h"

#include <filesystem>
#include <string>
#include <vector>

namespace headroom {

/// Options of exported pictures. The export functions write pictures and tables for papers and reports. They need a
/// QGuiApplication (platform "offscreen" suffices) but no window; CSV needs neither. The suffix of the path selects the
/// format: .svg, .pdf, .png, .csv. A file is replaced only when the new file is complete. Errors (badInput): another
/// suffix or none, a file that cannot be written, a selected module that the model does not have.
struct ExportOptions
{
    int width = 1200; ///< in pixels at scale 1
    int height = 520;
    double scale = 2; ///< factor of the pixels of a .png
    bool dark = false;
};

/// Returns whether the suffix of a path is that of a format, before a long calculation. Error (badInput): another
/// suffix or none.
Status checkPicturePath(const std::filesystem::path& path);

struct TimelineExport
{
    std::string title; ///< "demo:transformer, batch 8, A100 80 GB"
    StepTracePtr trace; ///< null: no names of ops and modules
    TimelinePtr recorded;
    TimelinePtr planned; ///< may be null
    Bytes budget = 0; ///< 0: no line
    bool byModule = false; ///< stack by module instead of category; needs the trace
};
/// Errors: those of ExportOptions.
Status exportTimeline(const TimelineExport& data, const std::filesystem::path& path, const ExportOptions& options = {});

struct TradeOffExport
{
    std::string title;
    ModuleInfoPtr info;
    std::string selected; ///< fqn of the highlighted module; empty: none
    PlannedPoint planned = {}; ///< the plan's effect on each module; empty: no plan
    double msPerGiB = 0; ///< the plan's price of memory; 0: no tangent
    std::vector<ModuleOption> options
        = {}; ///< the planner's options for the selected module, for pictures; empty: PyTorch's
};
/// Errors: those of ExportOptions.
Status exportTradeOff(const TradeOffExport& data, const std::filesystem::path& path, const ExportOptions& options = {});

struct FrontierExport
{
    std::string title;
    std::vector<FrontierPoint> points; ///< peak ascending
    double stepMs = 0; ///< step time without recomputation, for the added time in percent; 0: no percentage
    Bytes budget = 0; ///< 0: no line
};
/// Errors: those of ExportOptions.
Status exportFrontier(const FrontierExport& data, const std::filesystem::path& path, const ExportOptions& options = {});

struct FitExport
{
    std::string title;
    FitResult result;
    bool ofSequences = false; ///< the picture has tokens a second over sequence lengths, not samples over batches
};
/// Errors: those of ExportOptions.
Status exportFit(const FitExport& data, const std::filesystem::path& path, const ExportOptions& options = {});

struct PeakExport
{
    std::string title;
    StepTracePtr trace;
    TimelinePtr timeline;
    LiveTree::By by = LiveTree::By::module;
};
/// What is alive at the peak, as an icicle; a .csv has a row for each block; a .folded has the stacks that speedscope
/// and flamegraph.pl read. Errors: those of ExportOptions.
Status exportPeak(const PeakExport& data, const std::filesystem::path& path, const ExportOptions& options = {});

} // namespace headroom
