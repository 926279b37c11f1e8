// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/report/report.h"

#include "core/base/atomic_write.h"
#include "core/base/try.h"
#include "core/cost/card_memory.h"
#include "core/cost/time_model.h"
#include "core/trace/out_of_memory.h"
#include "core/trace/remarks.h"
#include "views/report/report_parts.h"
#include "views/theme/theme.h"

#include <QCryptographicHash>
#include <QFile>

#include <algorithm>
#include <array>
#include <utility>

// Resources of a static library must be pulled in by name, outside of any namespace.
static void initialiseReport()
{
    Q_INIT_RESOURCE(report);
}

namespace headroom {
namespace {

/// Whether the step can be run on a card: whole, and of the simulated GPU.
bool runsOnCards(const StepInfo& info, const StepTrace& trace)
{
    return info.simulated && info.source.empty() && checkWhole(trace, {}).ok();
}

Held heldAtPeak(const StepTrace& trace, const Timeline& timeline)
{
    const std::size_t count = timeline.peakChange == Timeline::npos ? 0 : timeline.peakChange + 1;
    const std::vector<LiveBlock> blocks = liveBlocks(trace, timeline, count);
    Held held;
    held.modules = heldByModule(StorageOwners(trace), blocks);
    if (hasSourceLines(trace))
        held.lines = heldByLine(SourceLines(trace), blocks);
    return held;
}

/// The run of the recorded step on the card; nullopt: no card is known, or the step is of another program.
std::optional<CardRun> runOf(const ReportRequest& request)
{
    if (!request.card || !request.trace->info.source.empty())
        return std::nullopt;
    return runOnCard(*request.card, *request.trace, *request.recorded);
}

} // namespace

Result<Report> makeReport(ReportRequest request, const std::stop_token& stop)
{
    Report report;
    report.of = std::move(request);
    const StepTrace& trace = report.trace();
    report.peak = instantOf(trace, *report.of.recorded, report.of.recorded->peakChange);
    report.allocator = ownAllocator(trace, *report.of.recorded);
    report.held = heldAtPeak(trace, *report.of.recorded);
    if (const TimelinePtr planned = report.planned())
        report.plannedHeld = heldAtPeak(trace, *planned);
    if (report.of.card && runsOnCards(trace.info, trace)) {
        ASSIGN_OR_RETURN(report.changes,
                         changesThatHelp(report.of.trace, *report.of.card, {}, stop,
                                         report.of.isPlannedForCard ? report.of.plan : nullptr));
        report.run = report.changes->before.run;
    }
    report.causes = causesOf(trace, *report.of.recorded, report.run ? report.run : runOf(report.of));
    if (hasClock(trace)) {
        ASSIGN_OR_RETURN(report.clock, clockOf(trace, {}));
        if (report.planned() && report.of.plan->mode() == PlanMode::modules) {
            ASSIGN_OR_RETURN(report.plannedClock, clockOf(trace, report.of.plan->regions));
        }
    }
    return report;
}

namespace {

using namespace html;

// The style.

std::string variables(const Theme& theme)
{
    std::string text;
    const auto add = [&](const std::string& name, const QColor& color) {
        text += "--" + name + ':' + color.name().toStdString() + ';';
    };
    for (const auto& [name, color] :
         std::initializer_list<std::pair<const char*, QColor>>{{"surface", theme.surface},
                                                               {"card", theme.card},
                                                               {"line", theme.line},
                                                               {"text", theme.text},
                                                               {"second", theme.secondText},
                                                               {"accent", theme.accent},
                                                               {"soft", theme.accentSoft},
                                                               {"danger", theme.danger},
                                                               {"danger-soft", theme.dangerSoft},
                                                               {"ghost", theme.ghost},
                                                               {"hatch", theme.hatch}})
        add(name, color);
    for (std::size_t i = 0; i < categoryCount; ++i)
        add(categoryClass(static_cast<Category>(i)), theme.categories[i]);
    return text;
}

std::string style()
{
    initialiseReport();
    QFile file(QStringLiteral(":/headroom/report.css"));
    file.open(QIODevice::ReadOnly);
    std::string text = ":root{" + variables(Theme::make(false))
        + "}\n@media screen and (prefers-color-scheme:dark){:root{" + variables(Theme::make(true)) + "}}\n"
        + file.readAll().toStdString();
    for (std::size_t i = 0; i < categoryCount; ++i) {
        const std::string name = categoryClass(static_cast<Category>(i));
        text += '.' + name + "{--key:var(--" + name + ")}\n";
    }
    return text;
}

/// The value for a Content-Security-Policy that allows this style and nothing else.
std::string policyFor(const std::string& style)
{
    const QByteArray hash = QCryptographicHash::hash(QByteArray::fromStdString(style), QCryptographicHash::Sha256);
    return "default-src 'none'; style-src 'sha256-" + hash.toBase64().toStdString()
        + "'; base-uri 'none'; form-action 'none'";
}

// The head of the page.

std::string cardName(const Card& card)
{
    return card.name.empty() ? "a card with " + card.title + " for the allocator" : card.title;
}

struct Verdict
{
    bool isBad = false;
    std::string head; ///< text
    std::string why; ///< text
    std::vector<std::string> assumptions;
};

Verdict verdictOf(const CardRun& run, const Card& card, bool withPlan)
{
    const std::string with = withPlan ? " with the plan" : "";
    if (!run.runs)
        return {true, "Does not run on " + cardName(card) + with, run.reason, run.assumptions};
    return {false, "Runs on " + cardName(card) + with,
            formatBytes(run.reservedPeak) + " reserved at most, " + formatBytes(run.left) + " left", run.assumptions};
}

/// The reason is here and not in the plan's section.
Verdict verdictWithoutPlan(const PlanAnswer& plan)
{
    Verdict verdict{true, "No plan fits " + formatBytes(plan.plan.budget), plan.plan.reason, {}};
    if (plan.card) {
        verdict.head = "No plan runs on " + cardName(*plan.card->card);
        verdict.assumptions = plan.card->run.assumptions;
    }
    if (const std::string beginning = verdict.head + ": "; verdict.why.starts_with(beginning))
        verdict.why.erase(0, beginning.size());
    return verdict;
}

Verdict verdictOf(const Report& report)
{
    const StepTrace& trace = report.trace();
    if (const auto failures = outOfMemoryEvents(trace); endedOutOfMemory(trace) && !failures.empty())
        return {true, "Ran out of memory", whyOutOfMemory(trace, failures.back()), {}};
    if (const std::string_view raised = trace.info.endedEarly(); !raised.empty())
        return {true, "The step ended early", std::string(raised), {}};
    const PlanAnswer* const plan = report.of.plan.get();
    if (plan && !plan->fits())
        return verdictWithoutPlan(*plan);
    if (plan && plan->card)
        return verdictOf(plan->card->run, *plan->card->card, true);
    if (plan)
        return {false, "Fits " + formatBytes(plan->plan.budget) + " with the plan", {}, {}};
    if (report.run)
        return verdictOf(*report.run, *report.of.card, false);
    return {false,
            "Takes " + formatBytes(report.of.recorded->peak) + " at the peak",
            report.of.card ? "" : "No card is known for this step",
            {}};
}

std::string headOf(const Report& report)
{
    const Verdict verdict = verdictOf(report);
    std::string text = "<header>\n<p class=\"note\">Memory of a training step</p>\n<h1>"
        + nameOf(report.trace().info.model) + "</h1>\n<div class=\"verdict" + (verdict.isBad ? " bad" : "")
        + "\"><p><b>" + escaped(verdict.head) + "</b></p>\n";
    if (!verdict.why.empty())
        text += paragraph(html::sentence(verdict.why));
    if (!verdict.assumptions.empty())
        text += "<p class=\"note\">Assumed:</p>" + list(verdict.assumptions);
    return text + "</div>\n</header>\n";
}

std::string causesSection(const Report& report)
{
    std::string items;
    for (const Cause& cause : report.causes)
        items += "<li>" + html::sentence(cause.sentence)
            + (cause.line.empty() ? "" : "<br><code>" + nameOf(cause.line) + "</code>") + "</li>\n";
    return items.empty() ? items : section("Why the step takes this memory", "<ul>\n" + items + "</ul>\n");
}

std::string remarksOf(const Report& report)
{
    std::vector<std::string> sentences = report.of.plan ? planRemarks(report.trace()) : remarks(report.trace());
    std::erase_if(sentences, [&](const std::string& remark) {
        return std::ranges::find(report.causes, remark, &Cause::remark) != report.causes.end();
    });
    if (const auto& measured = report.trace().info.measured)
        sentences.insert(sentences.end(), measured->notes.begin(), measured->notes.end());
    return sentences.empty() ? std::string() : section("Remarks", list(sentences));
}

// The key figures.

std::string figure(std::string_view title, const std::string& value, const std::string& mark, const std::string& below)
{
    return "<div><dt>" + escaped(title) + "</dt><dd><b>" + value + "</b>" + mark + "<small>" + below
        + "</small></dd></div>\n";
}

std::string cardFigures(const Report& report)
{
    const PlanAnswer* const plan = report.of.plan.get();
    const bool isPlanned = plan && plan->card;
    if (!isPlanned && !report.run) {
        const bool isMeasured = report.allocator.reservedMeasured;
        return figure("Reserved", bytesOf(report.allocator.stats.reservedPeak),
                      tag(isMeasured ? "measured" : "replayed"), "segments of the caching allocator");
    }
    const CardRun& run = isPlanned ? plan->card->run : *report.run;
    std::string text = figure("Reserved", bytesOf(run.reservedPeak), tag("replayed"),
                              run.runs ? "with the libraries' workspaces" : "up to the failure");
    if (run.runs)
        text += figure("Left on the card", bytesOf(run.left), tag("estimated"),
                       "of " + bytesOf((isPlanned ? *plan->card->card : *report.of.card).given())
                           + " that the allocator may reserve");
    return text;
}

std::string timeFigures(const Report& report)
{
    const StepInfo& info = report.trace().info;
    std::string text;
    if (const std::optional<StepClock>& clock = report.plannedClock ? report.plannedClock : report.clock)
        text += figure("Step", msOf(clock->stepMs), timesTag(info),
                       report.plannedClock ? msOf(report.clock->stepMs) + " without the plan"
                                           : "on " + escaped(info.gpu));
    else if (info.measured && info.measured->stepMs > 0)
        text += figure("Step", msOf(info.measured->stepMs), tag("measured"), "wall time");
    return text;
}

std::string figuresOf(const Report& report)
{
    const Timeline& recorded = *report.of.recorded;
    const TimelinePtr planned = report.planned();
    std::string text = figure(planned ? "Peak without the plan" : "Peak", bytesOf(recorded.peak),
                              bytesTag(report.trace().info), groupedDigits(recorded.peak) + " bytes allocated");
    if (planned)
        text += figure("Peak with the plan", "<em>" + bytesOf(planned->peak) + "</em>", tag("planned"),
                       groupedDigits(planned->peak) + " bytes allocated");
    return "<dl class=\"figures\">\n" + text + cardFigures(report) + timeFigures(report) + "</dl>\n";
}

/// What each kind of number that the page has means.
std::string kindsSection(const std::string& page)
{
    static constexpr std::array<std::array<const char*, 2>, 9> kinds{
        {{"simulated", "Bytes that the program allocates, from a run on the simulated GPU."},
         {"snapshot", "From the recording of PyTorch's allocator."},
         {"measured", "Measured on the device."},
         {"replayed", "The caching allocator's rules, applied to the allocations."},
         {"estimated", "Rests on memory that PyTorch does not report: CUDA's context and libraries' workspaces."},
         {"time model", "A model of the GPU's kernels, not a measurement of the program."},
         {"calibrated", "The time model, corrected by measurements."},
         {"planned", "Predicted for the step under a plan."},
         {"calculated", "Follows from the recorded step; no step with the change was recorded."}}};
    std::string text;
    for (const auto& [kind, meaning] : kinds)
        if (page.find(tag(kind)) != std::string::npos)
            text += "<dt>" + tag(kind) + "</dt><dd>" + escaped(meaning) + "</dd>\n";
    return section("How sure the numbers are", "<dl>\n" + text + "</dl>\n");
}

} // namespace

std::string reportHtml(const Report& report)
{
    const std::string css = style();
    std::string page = headOf(report) + causesSection(report) + remarksOf(report) + figuresOf(report)
        + timelineSection(report) + peakSection(report) + planSection(report) + frontierSection(report)
        + changesSection(report) + recordingSection(report);
    page += kindsSection(page);
    return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta http-equiv=\"Content-Security-Policy\" content=\""
        + policyFor(css)
        + "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>"
        + escaped(report.trace().info.model) + " – Headroom</title>\n<style>" + css
        + "</style>\n</head>\n<body>\n<main>\n" + page + "</main>\n</body>\n</html>\n";
}

Status writeReport(const Report& report, const std::filesystem::path& path)
{
    return writeAtomically(path, reportHtml(report));
}

} // namespace headroom
