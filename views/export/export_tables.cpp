// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/export/export_tables.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace headroom {

std::string csvField(std::string_view text)
{
    if (text.find_first_of(",\"\r\n") == std::string_view::npos)
        return std::string(text);
    std::string made = "\"";
    for (const char c : text) {
        if (c == '"')
            made += '"';
        made += c;
    }
    return made + '"';
}

namespace {

// Shortest text that reads back as the same number, whatever the locale.
std::string number(double value)
{
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    return {digits.data(), end};
}

class StepRows
{
public:
    StepRows(std::string& text, const StepTrace* trace, std::string_view name)
        : text_(text)
        , trace_(trace)
        , name_(name)
    {
    }

    void write(const Timeline& timeline)
    {
        CategoryBytes now = timeline.start;
        row(timeline, 0, nullptr, now);
        for (const auto& change : timeline.changes) {
            now[static_cast<std::size_t>(change.category)] += change.delta;
            row(timeline, change.ms, &change, now);
        }
    }

private:
    void row(const Timeline& timeline, double ms, const MemoryChange* change, const CategoryBytes& now)
    {
        // Phases and changes are both in the order of time.
        while (phase_ < timeline.phases.size() && ms > timeline.phases[phase_].endMs)
            ++phase_;
        const bool inside = phase_ < timeline.phases.size() && ms >= timeline.phases[phase_].beginMs;
        const bool known = trace_ && change && change->op.valid();
        text_ += name_;
        text_ += ',' + number(ms) + ',';
        text_ += inside ? phaseName(timeline.phases[phase_].phase) : std::string_view();
        text_ += ',' + (known ? csvField(trace_->moduleFqn(trace_->ops.module[change->op])) : std::string());
        text_ += ',' + (known ? csvField(trace_->opName(change->op)) : std::string());
        text_ += change && change->recomputed ? ",1" : ",0";
        text_ += ',' + std::to_string(total(now));
        for (const Bytes bytes : now)
            text_ += ',' + std::to_string(bytes);
        text_ += '\n';
    }

    std::string& text_;
    const StepTrace* trace_;
    std::string_view name_;
    std::size_t phase_ = 0;
};

} // namespace

std::string timelineCsv(const TimelineExport& data)
{
    std::string text = "step,ms,phase,module,op,recomputed,total";
    for (std::size_t i = 0; i < categoryCount; ++i) {
        text += ',';
        text += categoryName(static_cast<Category>(i));
    }
    text += '\n';
    StepRows(text, data.trace.get(), "recorded").write(*data.recorded);
    if (data.planned)
        StepRows(text, data.trace.get(), "planned").write(*data.planned);
    return text;
}

std::string tradeOffCsv(const TradeOffExport& data)
{
    std::string text = "module,discarded,kept_bytes,recompute_ms,chosen\n";
    const auto row = [&](const ModuleStats& module, const TradeOffPoint& point, bool chosen) {
        text += csvField(module.fqn) + ',' + number(point.ratio) + ',' + number(std::round(point.kept)) + ','
            + number(point.ms) + (chosen ? ",1\n" : ",0\n");
    };
    for (const auto& module : data.info->stats) {
        if (!data.selected.empty() && module.fqn != data.selected)
            continue;
        const auto curve = tradeOffCurve(module);
        if (curve.empty())
            continue;
        for (const auto& point : curve)
            row(module, point, false);
        if (data.planned)
            row(module, data.planned(module.fqn), true);
    }
    return text;
}

std::string peakCsv(const StepTrace& trace, const Timeline& timeline, std::size_t count, const LiveTree& tree)
{
    const StorageOwners owners(trace);
    const SourceLines lines(trace);
    const std::vector<Lifetime> lives = lifetimes(timeline, count, tree.blocks);
    std::string text = "bytes,category,module,line,block,begin_ms,end_ms\n";
    for (std::size_t i = 0; i < tree.blocks.size(); ++i) {
        const LiveBlock& block = tree.blocks[i];
        text += std::to_string(block.bytes) + ',' + std::string(categoryName(block.category)) + ','
            + csvField(trace.moduleFqn(owners.module(block.storage))) + ',' + csvField(lines.text(block.storage)) + ','
            + csvField(blockText(trace, owners, block)) + ','
            + (lives[i].fromBefore ? std::string() : number(lives[i].beginMs)) + ','
            + (lives[i].outlives ? std::string() : number(lives[i].endMs)) + '\n';
    }
    return text;
}

std::string frontierCsv(const FrontierExport& data)
{
    const bool moves = movesAny(data.points);
    std::string text = "peak_bytes,recompute_ms,gap";
    text += data.stepMs > 0 ? ",share_of_step" : "";
    text += moves ? ",exposed_ms,moved_bytes,host_bytes\n" : "\n";
    for (const auto& point : data.points) {
        text += std::to_string(point.peak) + ',' + number(point.recomputeMs) + ',' + number(point.gap);
        if (data.stepMs > 0)
            text += ',' + number(point.costMs() / data.stepMs);
        if (moves)
            text += ',' + number(point.exposedMs) + ',' + std::to_string(point.movedBytes) + ','
                + std::to_string(point.hostBytes);
        text += '\n';
    }
    return text;
}

} // namespace headroom
