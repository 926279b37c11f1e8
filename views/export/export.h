// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/plan/plan.h"
#include "core/policy/step_planner.h"
#include "core/sac/module_info.h"
#include "core/timeline/timeline.h"
#include "views/plot/tradeoff_curve.h"

#include <filesystem>
#include <string>
#include <vector>

namespace headroom {

/// Pictures and tables for papers and reports, drawn from plain data: no window, only a QGuiApplication (platform
/// "offscreen" will do; CSV needs none). The suffix of the path decides the format: .svg, .pdf, .png, .csv. A file is
/// replaced only when the new one is complete.
struct ExportOptions
{
    int width = 1200; ///< in pixels at scale 1
    int height = 520;
    double scale = 2; ///< of .png
    bool dark = false;
};

struct TimelineExport
{
    std::string title; ///< "demo:transformer, batch 8, A100 80 GB"
    StepTracePtr trace; ///< may be null: no op and module
    TimelinePtr recorded;
    TimelinePtr planned; ///< may be null
    Bytes budget = 0; ///< 0: no line
    bool byModule = false; ///< stack by module, which needs the trace
};
Status exportTimeline(const TimelineExport& data, const std::filesystem::path& path, const ExportOptions& options = {});

struct TradeOffExport
{
    std::string title;
    ModuleInfoPtr info;
    std::string selected; ///< fqn drawn in ink; empty: all alike
    PlannedPoint planned = {}; ///< what a plan does; empty: there is none
    double msPerGiB = 0; ///< its price of memory; 0: no tangent
    std::vector<ModuleWay> ways = {}; ///< of the selected module, for pictures; empty: PyTorch's estimates are drawn
};
Status exportTradeOff(const TradeOffExport& data, const std::filesystem::path& path, const ExportOptions& options = {});

struct FrontierExport
{
    std::string title;
    std::vector<FrontierPoint> points; ///< peak ascending
    double stepMs = 0; ///< without recomputation: for the time added in percent; 0: left out
    Bytes budget = 0; ///< 0: no line
};
Status exportFrontier(const FrontierExport& data, const std::filesystem::path& path, const ExportOptions& options = {});

} // namespace headroom
