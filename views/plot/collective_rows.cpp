// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/collective_rows.h"

#include "views/plot/number_text.h"

#include <QCoreApplication>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace headroom {
namespace {

QString tr(const char* text)
{
    return QCoreApplication::translate("CollectiveRows", text);
}

/// The runs of a row that are narrower than a pixel and begin in the same one.
struct Pixel
{
    double at = -1;
    std::array<double, collectiveKindCount> ms{};
    double exposedMs = 0;

    std::optional<CollectiveBlock> take(std::size_t row)
    {
        if (at < 0)
            return std::nullopt;
        const auto most = std::ranges::max_element(ms);
        const double sum = std::accumulate(ms.begin(), ms.end(), 0.0);
        const CollectiveBlock block{row, at, at + 1, static_cast<CollectiveKind>(most - ms.begin()),
                                    2 * exposedMs >= sum && exposedMs > 0};
        *this = {};
        return block;
    }
};

} // namespace

CollectiveRows::CollectiveRows(StepTracePtr trace, std::vector<ModuleId> modules, std::vector<TimedCollective> runs)
    : trace_(std::move(trace))
    , modules_(std::move(modules))
    , runs_(std::move(runs))
{
    std::ranges::stable_sort(runs_, {}, &TimedCollective::atMs);
    constexpr std::size_t unused = -1;
    rowOfGroup_.assign(trace_ ? trace_->groups.size() : 0, unused);
    std::array<bool, collectiveKindCount> used{};
    for (std::size_t run = 0; run < runs_.size(); ++run) {
        rows_.push_back(collectiveRow(*trace_, runs_[run].op));
        used[static_cast<std::size_t>(kind(run))] = true;
        ms_ += runs_[run].ms;
        exposedMs_ += runs_[run].exposedMs;
        std::size_t& row = rowOfGroup_[group(run).value];
        if (row != unused)
            continue;
        row = std::min(titles_.size(), mostRows - 1);
        if (row == titles_.size())
            titles_.push_back(tr("%1 ranks").arg(trace_->groups.ranks[group(run)].size()));
        else
            titles_[row] = tr("others");
    }
    for (std::size_t kind = 0; kind < used.size(); ++kind)
        if (used[kind])
            kinds_.push_back(static_cast<CollectiveKind>(kind));
}

QString CollectiveRows::groupText(GroupId group) const
{
    const auto ranks = trace_->groups.ranks[group];
    constexpr std::size_t mostNamed = 4;
    QStringList names;
    for (const std::uint32_t rank : ranks.first(std::min(mostNamed, ranks.size())))
        names << QString::number(rank);
    if (ranks.size() > mostNamed)
        names << tr("… %1").arg(ranks.back());
    return tr("%1 ranks: %2 (group %3)")
        .arg(ranks.size())
        .arg(names.join(QStringLiteral(", ")), QString::fromUtf8(trace_->strings[trace_->groups.name[group]]));
}

QString CollectiveRows::text(std::size_t run) const
{
    const TimedCollective& timed = runs_[run];
    const std::size_t row = rows_[run];
    const std::uint32_t peer = trace_->collectives.peer[row];
    QStringList lines;
    lines << tr("%1, %2").arg(collectiveTitle(kind(run)), bytesText(trace_->collectives.bytes[row], 2));
    lines << (peer == StepTrace::Collectives::noPeer ? tr("among %1").arg(groupText(group(run)))
                                                     : tr("with rank %1 of %2").arg(peer).arg(groupText(group(run))));
    lines << QString::fromUtf8(trace_->moduleFqn(module(run)));
    lines << (timed.exposedMs > 0 ? tr("takes %1, %2 of it exposed").arg(msText(timed.ms), msText(timed.exposedMs))
                                  : tr("takes %1, hidden by other kernels").arg(msText(timed.ms)));
    lines << tr("on the GPU from %1 on").arg(msText(timed.beginMs));
    return lines.join(QLatin1Char('\n'));
}

std::vector<CollectiveBlock> CollectiveRows::blocks(const AxisMap& axis) const
{
    std::vector<CollectiveBlock> blocks;
    std::vector<Pixel> pixels(rowCount());
    const auto flush = [&](std::size_t row) {
        if (const auto block = pixels[row].take(row))
            blocks.push_back(*block);
    };
    const auto first = std::ranges::partition_point(
        runs_, [&](const TimedCollective& run) { return run.atMs + run.ms < axis.data.begin; });
    for (auto run = static_cast<std::size_t>(first - runs_.begin());
         run < runs_.size() && runs_[run].atMs <= axis.data.end; ++run) {
        const double begin = std::max(axis.pixelBegin, axis.toPixel(range(run).begin));
        const double end = std::min(axis.pixelEnd, axis.toPixel(range(run).end));
        const std::size_t in = row(run);
        if (end - begin < 1) {
            const double at = std::floor(begin);
            if (pixels[in].at != at)
                flush(in);
            pixels[in].at = at;
            pixels[in].ms[static_cast<std::size_t>(kind(run))] += runs_[run].ms;
            pixels[in].exposedMs += runs_[run].exposedMs;
            continue;
        }
        flush(in);
        const double whole = axis.toPixel(range(run).end);
        const double waited = runs_[run].ms > 0
            ? whole - (whole - axis.toPixel(range(run).begin)) * runs_[run].exposedMs / runs_[run].ms
            : whole;
        const double turn = std::clamp(waited, begin, end);
        if (turn > begin)
            blocks.push_back({in, begin, turn, kind(run), false});
        if (end > turn)
            blocks.push_back({in, turn, end, kind(run), true});
    }
    for (std::size_t row = 0; row < pixels.size(); ++row)
        flush(row);
    return blocks;
}

std::optional<CollectiveRows::Found> CollectiveRows::find(std::size_t row, double ms, double reach) const
{
    const auto first = std::ranges::partition_point(
        runs_, [&](const TimedCollective& run) { return run.atMs + run.ms < ms - reach; });
    std::optional<Found> found;
    double nearest = 0;
    for (auto run = static_cast<std::size_t>(first - runs_.begin()); run < runs_.size(); ++run) {
        const AxisRange at = range(run);
        if (at.begin > ms + reach)
            break;
        if (this->row(run) != row)
            continue;
        const double distance = std::max({0.0, at.begin - ms, ms - at.end});
        const bool nearer = !found || distance < nearest
            || (distance == nearest && runs_[run].ms > runs_[found->run].ms); // the longest of several in a pixel
        const int more = found ? found->more + 1 : 0;
        found = Found{nearer ? run : found->run, more};
        nearest = nearer ? distance : nearest;
    }
    return found;
}

std::optional<std::size_t> CollectiveRows::next(std::optional<std::size_t> from, int direction) const
{
    if (runs_.empty())
        return std::nullopt;
    if (!from)
        return direction > 0 ? 0 : runs_.size() - 1;
    const auto last = static_cast<std::ptrdiff_t>(runs_.size()) - 1;
    return static_cast<std::size_t>(
        std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(*from) + direction, 0, last));
}

std::optional<std::size_t> CollectiveRows::beside(std::size_t from, int direction) const
{
    const auto row = static_cast<std::ptrdiff_t>(this->row(from)) + direction;
    if (row < 0 || row >= std::ssize(titles_))
        return std::nullopt;
    std::optional<std::size_t> nearest;
    const auto distance = [&](std::size_t run) { return std::abs(runs_[run].atMs - runs_[from].atMs); };
    for (std::size_t run = 0; run < runs_.size(); ++run)
        if (this->row(run) == static_cast<std::size_t>(row) && (!nearest || distance(run) < distance(*nearest)))
            nearest = run;
    return nearest;
}

QString collectiveTitle(CollectiveKind kind)
{
    return QString::fromUtf8(collectiveName(kind)).replace(QLatin1Char('_'), QLatin1Char('-'));
}

} // namespace headroom
