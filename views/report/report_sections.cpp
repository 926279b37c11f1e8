// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/report/report_parts.h"

#include "core/cost/time_model.h"
#include "core/trace/phase_times.h"
#include "views/theme/theme.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

namespace headroom::html {

namespace {

constexpr std::size_t mostModules = 24; ///< rows of a table of modules
constexpr std::size_t mostHeld = 16; ///< rows of a table of what is alive
constexpr std::size_t mostOps = 4; ///< kinds of ops in a cell
constexpr std::size_t mostNames = 8; ///< alike modules named in a cell

/// A name with the square of its colour.
std::string keyed(const std::string& cssClass, const std::string& name)
{
    return "<i class=\"" + cssClass + "\"></i>" + name;
}

std::string shareOfPeak(Bytes bytes, Bytes peak)
{
    return peak > 0 ? percentOf(static_cast<double>(bytes) / static_cast<double>(peak)) : "–";
}

// What is alive at the peak.

std::string byCategory(const Report& report)
{
    const CategoryBytes& recorded = report.of.recorded->atPeak;
    const TimelinePtr planned = report.planned();
    const Bytes peak = total(recorded);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < categoryCount; ++i)
        if (recorded[i] > 0 || (planned && planned->atPeak[i] > 0))
            order.push_back(i);
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return recorded[i]; });
    std::vector<Rows::Column> columns{{"Category"}, {"At the peak", true}, {"Share", true}};
    if (planned)
        columns.push_back({"With the plan", true});
    Rows rows(columns);
    const auto row = [&](const std::string& name, Bytes before, Bytes after) {
        std::vector<std::string> cells{name, bytesOf(before), shareOfPeak(before, peak)};
        if (planned)
            cells.push_back("<em>" + bytesOf(after) + "</em>");
        rows.add(cells);
    };
    std::vector<BarPart> parts;
    for (const std::size_t i : order) {
        const auto category = static_cast<Category>(i);
        row(keyed(categoryClass(category), escaped(categoryTitle(category).toStdString())), recorded[i],
            planned ? planned->atPeak[i] : 0);
        parts.push_back({categoryClass(category),
                         static_cast<double>(recorded[i]) / static_cast<double>(std::max<Bytes>(peak, 1))});
    }
    row("<b>Total</b>", peak, planned ? planned->peak : 0);
    return "<div>\n<h3>By category" + bytesTag(report.trace().info) + "</h3>\n" + bar(parts) + rows.text() + "</div>\n";
}

/// The memory of a module or of a line at the two peaks.
struct HeldRow
{
    std::uint32_t id = 0; ///< ModuleId, or line of SourceLines
    CategoryBytes bytes{};
    Bytes sum = 0;
    Bytes planned = 0;
};

/// Sums up holdings with equal ids, largest first.
template <class Holding, class IdOf>
std::vector<HeldRow> heldRows(const std::vector<Holding>& held, const std::vector<Holding>& planned, IdOf idOf)
{
    std::map<std::uint32_t, HeldRow> rows;
    for (const Holding& holding : held) {
        HeldRow& row = rows[std::invoke(idOf, holding)];
        row.bytes[static_cast<std::size_t>(holding.category)] += holding.bytes;
        row.sum += holding.bytes;
    }
    for (const Holding& holding : planned)
        rows[std::invoke(idOf, holding)].planned += holding.bytes;
    std::vector<HeldRow> sorted;
    for (auto& [id, row] : rows) {
        row.id = id;
        sorted.push_back(row);
    }
    std::ranges::stable_sort(sorted, std::ranges::greater(), &HeldRow::sum);
    return sorted;
}

std::vector<BarPart> barOf(const HeldRow& row, Bytes whole)
{
    std::vector<BarPart> parts;
    for (const Category category : stackOrder) {
        if (const Bytes bytes = row.bytes[static_cast<std::size_t>(category)]; bytes > 0)
            parts.push_back({categoryClass(category), static_cast<double>(bytes) / static_cast<double>(whole)});
    }
    return parts;
}

/// A table of the rows, named by `nameOfId`, with a bar of categories for each.
template <class NameOfId>
std::string heldTable(const Report& report, const std::string& title, const std::vector<HeldRow>& all,
                      std::string_view what, NameOfId nameOfId)
{
    std::vector<Rows::Column> columns{{title}, {"At the peak", true}};
    if (report.planned())
        columns.push_back({"With the plan", true});
    Rows rows(columns);
    const Bytes most = std::max<Bytes>(all.front().sum, 1);
    for (const HeldRow& row : std::span(all).first(std::min(all.size(), mostHeld))) {
        std::vector<std::string> cells{nameOfId(row.id) + bar(barOf(row, most)), bytesOf(row.sum)};
        if (report.planned())
            cells.push_back("<em>" + bytesOf(row.planned) + "</em>");
        rows.add(cells);
    }
    return rows.text() + rest(all.size(), mostHeld, what);
}

std::string byModule(const Report& report)
{
    const std::string head = "<h3>By module" + bytesTag(report.trace().info) + "</h3>\n";
    const std::vector<HeldRow> all = heldRows(report.held.modules, report.plannedHeld.modules,
                                              [](const ModuleHolding& holding) { return holding.module.value; });
    const auto isKnown = [](const HeldRow& row) { return ModuleId(row.id).valid(); };
    if (std::ranges::none_of(all, isKnown))
        return "<div>\n" + head + paragraph("The recording does not tell the modules of blocks.") + "</div>\n";
    const auto name = [&](std::uint32_t id) {
        return ModuleId(id).valid() ? nameOf(report.trace().moduleFqn(ModuleId(id))) : "No module";
    };
    return "<div>\n" + head + heldTable(report, "Module", all, "modules", name) + "</div>\n";
}

std::string byLine(const Report& report)
{
    const std::vector<HeldRow> all = heldRows(report.held.lines, report.plannedHeld.lines, &LineHolding::line);
    if (all.empty())
        return {};
    const SourceLines lines(report.trace());
    const auto name = [&](std::uint32_t line) {
        return line == SourceLines::none ? "No line" : "<code>" + nameOf(lines.text(line)) + "</code>";
    };
    return "<div>\n<h3>By line of source code" + bytesTag(report.trace().info) + "</h3>\n"
        + heldTable(report, "Line", all, "lines", name) + "</div>\n";
}

/// The bytes of each category at the marks of the step.
std::string atMarks(const Report& report)
{
    const auto& snapshots = report.of.recorded->snapshots;
    if (snapshots.empty())
        return {};
    std::vector<Rows::Column> columns{{"Category"}};
    for (const Timeline::Snapshot& snapshot : snapshots) {
        std::string title(markName(snapshot.mark));
        std::ranges::replace(title, '_', ' ');
        columns.push_back({title, true});
    }
    Rows rows(columns);
    for (std::size_t i = 0; i < categoryCount; ++i) {
        if (std::ranges::all_of(snapshots, [&](const Timeline::Snapshot& at) { return at.bytes[i] == 0; }))
            continue;
        const auto category = static_cast<Category>(i);
        std::vector<std::string> cells{keyed(categoryClass(category), escaped(categoryTitle(category).toStdString()))};
        for (const Timeline::Snapshot& at : snapshots)
            cells.push_back(bytesOf(at.bytes[i]));
        rows.add(cells);
    }
    return "<details><summary>Memory between the phases of the step</summary>\n" + rows.text() + "</details>\n";
}

} // namespace

std::string peakSection(const Report& report)
{
    const StepInstant& peak = report.peak;
    std::string when = "The peak is at " + msOf(peak.ms) + timesTag(report.trace().info);
    if (!peak.phase.empty())
        when += ", phase " + escaped(peak.phase);
    if (!peak.op.empty())
        when += ", in " + nameOf(peak.op) + (peak.module.empty() ? "" : " of " + nameOf(peak.module));
    const std::string lines = byLine(report);
    const std::string modulesAndLines
        = lines.empty() ? byModule(report) : "<div class=\"pair\">\n" + byModule(report) + lines + "</div>\n";
    return section("What is alive at the peak",
                   paragraph(when + '.') + byCategory(report) + modulesAndLines + atMarks(report));
}

// The plan.

namespace {

/// "aten.mm.default ×2, aten.addmm.default (on the host)"
std::string savedOps(const Policy::Module& module)
{
    std::map<std::pair<std::string, bool>, int> counts; // by op, and whether the result goes to the host
    for (const Policy::Op& op : module.ops)
        counts[{op.op, op.offload}] += op.save ? 1 : 0;
    std::erase_if(counts, [](const auto& entry) { return entry.second == 0; });
    std::string text;
    std::size_t shown = 0;
    for (const auto& [op, count] : counts) {
        if (shown++ == mostOps)
            break;
        text += (text.empty() ? "" : ", ") + nameOf(op.first) + (count > 1 ? "&nbsp;×" + std::to_string(count) : "")
            + (op.second ? " (on the host)" : "");
    }
    if (counts.size() > mostOps)
        text += " and " + std::to_string(counts.size() - mostOps) + " kinds of ops more";
    if (!module.arguments.empty())
        text = "arguments (on the host)" + (text.empty() ? "" : ", " + text);
    return text.empty() ? "no output of an op" : text;
}

/// Modules of a policy that are checkpointed, or offloaded, alike.
struct AlikeModules
{
    std::vector<std::string> fqns;
    double discarded = 0;
    std::string saves; ///< HTML
};

/// "5 of 17": the saved tensors that an offloaded module moves.
std::string movedTensors(const Policy::Moves& moves)
{
    return std::to_string(moves.tensors.size()) + " of " + std::to_string(moves.saved);
}

/// The checkpointed modules, or the modules that move tensors to the host.
std::vector<AlikeModules> alikeModules(const Policy& policy, bool offloaded)
{
    std::vector<AlikeModules> groups;
    for (const Policy::Module& module : policy.modules) {
        if (module.offload.has_value() != offloaded || (offloaded && module.offload->tensors.empty()))
            continue;
        std::string saves = offloaded ? movedTensors(*module.offload) : savedOps(module);
        const auto same = std::ranges::find_if(groups, [&](const AlikeModules& group) {
            return group.saves == saves && std::abs(group.discarded - module.discardRatio) < 5e-4;
        });
        if (same != groups.end())
            same->fqns.push_back(module.fqn);
        else
            groups.push_back({{module.fqn}, module.discardRatio, std::move(saves)});
    }
    return groups;
}

std::string namesOf(const AlikeModules& group)
{
    std::string text;
    for (const std::string& fqn : std::span(group.fqns).first(std::min(group.fqns.size(), mostNames)))
        text += (text.empty() ? "" : "<br>") + nameOf(fqn);
    if (group.fqns.size() > mostNames)
        text += "<br>and " + std::to_string(group.fqns.size() - mostNames) + " more, alike";
    return text;
}

std::string policyTable(const Policy& policy)
{
    const std::vector<AlikeModules> groups = alikeModules(policy, false);
    Rows rows({{"Checkpointed modules"}, {"Activations discarded", true}, {"Keeps for backward"}});
    for (const AlikeModules& group : std::span(groups).first(std::min(groups.size(), mostModules)))
        rows.add({namesOf(group), percentOf(group.discarded), group.saves});
    std::string text = groups.empty() ? "" : rows.text() + rest(groups.size(), mostModules, "kinds of modules");
    const std::vector<AlikeModules> moving = alikeModules(policy, true);
    if (moving.empty())
        return text;
    Rows moved({{"Offloaded modules"}, {"Saved tensors that move", true}});
    for (const AlikeModules& group : std::span(moving).first(std::min(moving.size(), mostModules)))
        moved.add({namesOf(group), group.saves});
    return text + moved.text() + rest(moving.size(), mostModules, "kinds of modules");
}

std::string planFigures(const Report& report)
{
    const Plan& plan = report.of.plan->plan;
    const StepInfo& info = report.trace().info;
    std::string text = report.of.policyFile.empty() ? "The plan is " + std::string(planStatusName(plan.status))
                                                    : "The plan comes from the policy " + nameOf(report.of.policyFile);
    if (report.of.policyFile.empty() && plan.gap > 0)
        text += ": a better plan saves at most " + msOf(plan.gapMs())
            + (plan.stepMs > 0 ? ", " + percentOf(plan.gapMs() / plan.stepMs) + " of forward and backward" : "");
    text += ". The peak is <em>" + bytesOf(plan.peak) + "</em>" + tag("planned") + " in place of "
        + bytesOf(plan.baselinePeak) + bytesTag(info) + ", for a budget of " + bytesOf(plan.budget)
        + ". Recomputation takes <em>" + msOf(plan.recomputeMs) + "</em>";
    if (plan.stepMs > 0)
        text += ", " + percentOf(plan.recomputeMs / plan.stepMs) + " of the " + msOf(plan.stepMs)
            + " of forward and backward";
    text += timesTag(info) + '.';
    if (plan.offload.moved > 0)
        text += " Offload moves <em>" + bytesOf(plan.offload.moved) + "</em> to the host and back in "
            + msOf(plan.offload.copyMs) + "; the GPU waits for " + msOf(plan.offload.exposedMs) + timesTag(info)
            + "; pinned host memory: " + bytesOf(plan.offload.host) + '.';
    if (plan.worldSize > 1)
        text += " The figures are of each of " + std::to_string(plan.worldSize)
            + " ranks; gathered parameters, buffers of collectives and time of collectives are left out.";
    return paragraph(text);
}

std::string betterSettingsLine(const PlanAnswer& plan)
{
    if (!plan.card || !plan.card->better)
        return {};
    const BetterSettings& better = *plan.card->better;
    return paragraph("With <code>PYTORCH_CUDA_ALLOC_CONF=" + escaped(better.settings) + "</code> "
                     + (plan.runs() ? "a plan saves " + msOf(better.savedMs) + " in each step" : "a plan is possible")
                     + tag("planned") + '.');
}

/// How the plan of least memory fails on the card, unless the plan's reason says so.
std::string failureOf(const PlanAnswer& plan)
{
    if (!plan.card || plan.card->run.reason.empty()
        || plan.plan.reason.find(plan.card->run.reason) != std::string::npos)
        return {};
    return " The plan of least memory does not run: " + escaped(plan.card->run.reason) + '.';
}

std::string obstacles(const Report& report)
{
    if (!report.of.modules)
        return {};
    std::vector<std::string> sentences;
    for (const Obstacle& obstacle : notCheckpointable(*report.of.modules))
        sentences.push_back(std::string(obstacle.module) + " cannot be checkpointed: " + std::string(obstacle.reason));
    for (const Obstacle& obstacle : wholeOnly(*report.of.modules))
        sentences.push_back(std::string(obstacle.module)
                            + " is recomputed as a whole or not at all: " + std::string(obstacle.reason));
    if (sentences.empty())
        return {};
    const std::size_t all = sentences.size();
    sentences.resize(std::min(all, mostModules));
    return "<details><summary>Modules that a plan may not checkpoint freely</summary>\n" + list(sentences)
        + rest(all, mostModules, "modules") + "</details>\n";
}

} // namespace

std::string planSection(const Report& report)
{
    const std::string title = "The plan";
    if (!report.of.whyNoPlan.empty())
        return section(title, paragraph(sentence(report.of.whyNoPlan)));
    if (!report.of.plan)
        return section(title,
                       paragraph("No plan was asked for. <code>--card</code>, <code>--budget</code> or "
                                 "<code>--policy</code> adds a plan to the report."));
    const PlanAnswer& plan = *report.of.plan;
    if (!plan.fits())
        return section(title,
                       paragraph("No plan fits; the reason is at the top of the page." + failureOf(plan))
                           + betterSettingsLine(plan) + obstacles(report));
    std::string content = planFigures(report) + betterSettingsLine(plan);
    if (plan.mode() == PlanMode::ops && !report.of.policy)
        content += paragraph("The plan is by op; the window shows what happens to each op.");
    else if (!report.of.policy || report.of.policy->modules.empty())
        content += paragraph("Nothing has to be recomputed.");
    else
        content += policyTable(*report.of.policy);
    return section(title, content + obstacles(report));
}

// What would help.

namespace {

std::string addedOf(const Change& change)
{
    if (change.stepMs <= 0)
        return "not known";
    if (std::abs(change.addedMs) < 0.005)
        return "the same";
    return (change.addedMs > 0 ? "+" : "−") + msOf(std::abs(change.addedMs));
}

std::string costOf(ChangeCost cost)
{
    std::string text(changeCostName(cost));
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
    return text;
}

} // namespace

std::string changesSection(const Report& report)
{
    const std::string title = "What would help";
    if (!report.changes)
        return {};
    const std::string about = "Each change by itself" + std::string(report.of.plan ? ", without the plan" : "")
        + ", calculated from this step for " + escaped(report.of.card->title) + ".";
    if (report.changes->list.empty())
        return section(title, paragraph(about + " No change that was tried frees memory."));
    Rows rows({{"Change"}, {"Costs"}, {"Frees", true}, {"Reserved", true}, {"Runs"}, {"Step", true}});
    for (const Change& change : report.changes->list)
        rows.add({"<b>" + escaped(change.what) + "</b>" + tag(changeSource(change)) + "<br><code>" + escaped(change.how)
                      + "</code>"
                      + (change.rests.empty() ? "" : "<p class=\"note\">" + sentence(change.rests) + "</p>"),
                  costOf(change.cost), bytesOf(change.freed), change.runs() ? bytesOf(change.run.reservedPeak) : "–",
                  change.runs() ? "yes" : "no", addedOf(change)});
    return section(title, paragraph(about) + rows.text());
}

// How the step was recorded.

namespace {

class Facts
{
public:
    void add(std::string_view name, const std::string& value)
    {
        if (!value.empty())
            text_ += "<dt>" + escaped(name) + "</dt><dd>" + value + "</dd>\n";
    }
    std::string text() const { return "<dl>\n" + text_ + "</dl>\n"; }

private:
    std::string text_;
};

std::string sizesOf(const StepInfo& info)
{
    std::string text = info.batch > 0 ? "batch " + groupedDigits(info.batch) : std::string();
    if (info.sequence > 0)
        text += (text.empty() ? "" : ", ") + ("sequence length " + groupedDigits(info.sequence));
    return text;
}

std::string deviceOf(const StepInfo& info)
{
    const Result<DeviceSpec> spec = findDeviceSpec(info.gpu);
    const std::string name = escaped(spec ? spec->title : info.gpu);
    if (info.source == "snapshot")
        return "memory snapshot of " + escaped(info.device);
    if (info.source == "profile")
        return "trace of torch.profiler, " + (name.empty() ? escaped(info.device) : name) + tag("measured");
    return name + tag(info.simulated ? "simulated" : "measured");
}

std::string commandOf(const StepInfo& info)
{
    if (info.arguments.empty())
        return {};
    std::string text = "torch-headroom record";
    for (const std::string& argument : info.arguments)
        text += ' ' + argument;
    return "<code>" + escaped(text) + "</code>";
}

} // namespace

std::string recordingSection(const Report& report)
{
    const StepTrace& trace = report.trace();
    const StepInfo& info = trace.info;
    Facts facts;
    facts.add("Program", nameOf(info.model));
    facts.add("Command", commandOf(info));
    facts.add("Device", deviceOf(info));
    facts.add("Sizes", sizesOf(info));
    facts.add("Element type", escaped(info.dtype) + (info.autocast ? ", autocast in bfloat16" : ""));
    facts.add("Optimizer", escaped(info.optimizer));
    if (info.distributed)
        facts.add("Rank",
                  std::to_string(info.distributed->rank) + " of " + std::to_string(info.distributed->worldSize));
    facts.add("Policy", escaped(info.policy));
    if (info.source.empty())
        facts.add("Step", std::to_string(info.steps) + " of the run");
    facts.add("Ops", groupedDigits(static_cast<std::int64_t>(trace.ops.size())));
    if (info.source != "snapshot")
        facts.add("Times", escaped(timesTitle(info)));
    facts.add("Allocator", escaped(report.allocator.settings));
    facts.add("torch", escaped(info.torch));
    facts.add("Headroom", escaped(report.of.version));
    return section("How the step was recorded", facts.text());
}

} // namespace headroom::html
