// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/collective_lane.h"

#include "views/plot/number_text.h"
#include "views/theme/styles.h"
#include "views/theme/theme.h"

#include <QCoreApplication>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

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

/// The runs of a row that are narrower than a pixel and begin in the same pixel.
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

bool CollectiveRows::belongs(std::size_t run, const std::optional<TimeRange>& selection) const
{
    return !selection || selection->meets(range(run).begin, range(run).end);
}

CollectiveRows::Sums CollectiveRows::sums(const std::optional<TimeRange>& selection) const
{
    Sums sums;
    for (std::size_t run = 0; run < runs_.size(); ++run) {
        if (!belongs(run, selection))
            continue;
        ++sums.runs;
        sums.ms += runs_[run].ms;
        sums.exposedMs += runs_[run].exposedMs;
    }
    return sums;
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
    lines << (timed.exposedMs > 0 ? tr("takes %1, %2 exposed").arg(msText(timed.ms), msText(timed.exposedMs))
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

namespace {

constexpr double laneHeight = 15;
constexpr double lowHeight = 5; // height of a block that other kernels hide
constexpr double reachPixels = 3; // distance at which the pointer finds a block
constexpr int bottom = 4;

const QColor& colorOf(CollectiveKind kind, const Theme& theme)
{
    switch (kind) {
    case CollectiveKind::allGather:
        return theme.ramp[1];
    case CollectiveKind::reduceScatter:
        return theme.ramp[5];
    case CollectiveKind::allReduce:
        return theme.ramp[0];
    case CollectiveKind::allToAll:
        return theme.ramp[3];
    case CollectiveKind::send:
    case CollectiveKind::receive:
        return theme.ramp[4];
    default:
        return theme.secondText;
    }
}

} // namespace

CollectiveLane::CollectiveLane(QWidget* parent)
    : QWidget(parent)
{
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    setAccessibleName(tr("Collectives over time"));
    hide();
}

void CollectiveLane::setRows(CollectiveRows rows)
{
    rows_ = std::move(rows);
    if (current_ && *current_ >= rows_.size())
        current_.reset();
    sums_ = rows_.sums(selection_);
    setVisible(rows_.size() > 0);
    place();
    describe();
}

void CollectiveLane::setPlotEdges(double left, double right)
{
    left_ = left;
    right_ = right;
    place();
}

void CollectiveLane::setRange(AxisRange shown)
{
    shown_ = shown;
    place();
}

void CollectiveLane::setSelection(std::optional<TimeRange> selection)
{
    selection_ = selection;
    sums_ = rows_.sums(selection_);
    if (current_ && !rows_.belongs(*current_, selection_))
        current_.reset();
    place();
    describe();
}

void CollectiveLane::place()
{
    top_ = legend().height();
    if (rows_.size() > 0)
        setFixedHeight(sizeHint().height());
    blocks_ = rows_.blocks(axis());
    update();
}

Legend CollectiveLane::legend() const
{
    const Theme& theme = Theme::of(*this);
    std::vector<LegendEntry> entries;
    for (const CollectiveKind kind : rows_.kinds())
        entries.push_back({collectiveTitle(kind), colorOf(kind, theme), LegendEntry::Symbol::square});
    entries.push_back({tr("low: hidden"), theme.secondText, LegendEntry::Symbol::line});
    const QString exposed = msText(sums_.exposedMs);
    return {selection_ ? tr("%1 collectives in the range, %2 exposed").arg(countText(sums_.runs), exposed)
                       : tr("Collectives, %1 exposed").arg(exposed),
            std::move(entries), static_cast<double>(width()), theme};
}

QSize CollectiveLane::sizeHint() const
{
    return {400, static_cast<int>(std::ceil(top_ + laneHeight * static_cast<double>(rows_.rowCount()))) + bottom};
}

QRectF CollectiveLane::rowRect(std::size_t row) const
{
    return {left_, top_ + laneHeight * static_cast<double>(row), right_ - left_, laneHeight};
}

void CollectiveLane::paintEvent(QPaintEvent*)
{
    const Theme& theme = Theme::of(*this);
    QPainter painter(this);
    legend().paint(painter, {0, 0});
    painter.setRenderHint(QPainter::Antialiasing, false);
    for (std::size_t row = 0; row < rows_.rowCount(); ++row) {
        const QRectF rect = rowRect(row);
        painter.fillRect(rect.adjusted(0, 1, 0, -1), theme.hover);
        painter.setFont(theme.numberCaption);
        painter.setPen(theme.secondText);
        painter.drawText(QRectF(0, rect.top(), left_ - 5, laneHeight), Qt::AlignRight | Qt::AlignVCenter,
                         rows_.title(row));
    }
    for (const CollectiveBlock& block : blocks_) {
        const QRectF row = rowRect(block.row).adjusted(0, 1, 0, -1);
        const double height = block.exposed ? row.height() : lowHeight;
        const double width = block.end - block.begin;
        painter.fillRect(
            QRectF(block.begin, row.bottom() - height, std::max(1.0, width - (width >= 4 ? 1 : 0)), height),
            colorOf(block.kind, theme));
    }
    if (selection_) {
        const double begin = std::clamp(axis().toPixel(selection_->beginMs), left_, right_);
        const double end = std::clamp(axis().toPixel(selection_->endMs), left_, right_);
        auto veil = theme.card;
        veil.setAlphaF(0.7f);
        const double height = laneHeight * static_cast<double>(rows_.rowCount());
        painter.fillRect(QRectF(left_, top_, begin - left_, height), veil);
        painter.fillRect(QRectF(end, top_, right_ - end, height), veil);
    }
    if (current_) {
        const AxisRange at = rows_.range(*current_);
        const QRectF row = rowRect(rows_.row(*current_));
        const double begin = std::clamp(axis().toPixel(at.begin), left_, right_);
        const double end = std::clamp(axis().toPixel(at.end), left_, right_);
        painter.setPen(QPen(theme.text, hasFocus() ? 2 : 1));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(QRectF(begin - 1, row.top(), std::max(3.0, end - begin + 1), row.height()));
    } else if (hasFocus()) {
        painter.setPen(QPen(theme.secondText, 1));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(
            QRectF(rowRect(0).topLeft(), rowRect(rows_.rowCount() - 1).bottomRight()).adjusted(0, 0, -1, -1));
    }
}

std::optional<CollectiveRows::Found> CollectiveLane::at(QPointF position) const
{
    for (std::size_t row = 0; row < rows_.rowCount(); ++row) {
        if (!rowRect(row).contains(position))
            continue;
        const auto found = rows_.find(row, axis().toData(position.x()), axis().dataPerPixel() * reachPixels);
        return found && rows_.belongs(found->run, selection_) ? found : std::nullopt;
    }
    return std::nullopt;
}

void CollectiveLane::mouseMoveEvent(QMouseEvent* event)
{
    const auto found = at(event->position());
    setCursor(found ? Qt::PointingHandCursor : Qt::ArrowCursor);
    if (!found) {
        QToolTip::hideText();
        return;
    }
    QString text = rows_.text(found->run);
    if (found->more > 0)
        text += QLatin1Char('\n') + tr("and %1 more here: zoom in to separate").arg(found->more);
    WrappedToolTips::show(event->globalPosition().toPoint() + QPoint(8, 8), text, this);
}

void CollectiveLane::mousePressEvent(QMouseEvent* event)
{
    const auto found = event->button() == Qt::LeftButton ? at(event->position()) : std::nullopt;
    if (!found)
        return;
    goTo(found->run);
    choose();
}

void CollectiveLane::goTo(std::optional<std::size_t> run)
{
    if (!run || !rows_.belongs(*run, selection_))
        return;
    current_ = run;
    const AxisRange at = rows_.range(*run);
    if (at.begin < shown_.begin || at.begin > shown_.end)
        Q_EMIT instantWanted(at.begin);
    describe();
    update();
    const QPointF below(std::clamp(axis().toPixel(at.begin), left_, right_), rowRect(rows_.row(*run)).bottom());
    WrappedToolTips::show(mapToGlobal(below.toPoint()), rows_.text(*run), this);
}

/// Goes to the next run that belongs to the selection.
void CollectiveLane::goAlong(std::optional<std::size_t> from, int direction)
{
    auto last = from;
    auto run = rows_.next(from, direction);
    while (run && run != last && !rows_.belongs(*run, selection_)) {
        last = run;
        run = rows_.next(run, direction);
    }
    goTo(run);
}

void CollectiveLane::choose()
{
    if (current_)
        Q_EMIT chosen(rows_.module(*current_), rows_.range(*current_).begin);
}

/// Describes the current run, or all runs, for screen readers.
void CollectiveLane::describe()
{
    setAccessibleDescription(current_ ? rows_.text(*current_)
                                      : tr("%1 collectives take %2, %3 exposed. Arrow keys go to the next collective, "
                                           "Return selects module and instant.")
                                            .arg(countText(sums_.runs), msText(sums_.ms), msText(sums_.exposedMs)));
}

void CollectiveLane::keyPressEvent(QKeyEvent* event)
{
    switch (event->key()) {
    case Qt::Key_Left:
        return goAlong(current_, -1);
    case Qt::Key_Right:
        return goAlong(current_, +1);
    case Qt::Key_Home:
        return goAlong(std::nullopt, +1);
    case Qt::Key_End:
        return goAlong(std::nullopt, -1);
    case Qt::Key_Up:
    case Qt::Key_Down:
        return current_ ? goTo(rows_.beside(*current_, event->key() == Qt::Key_Up ? -1 : +1)) : goAlong(current_, +1);
    case Qt::Key_Return:
    case Qt::Key_Enter:
    case Qt::Key_Space:
        return choose();
    default:
        QWidget::keyPressEvent(event);
    }
}

bool CollectiveLane::event(QEvent* event)
{
    if (event->type() == QEvent::Leave)
        QToolTip::hideText();
    return QWidget::event(event);
}

void CollectiveLane::resizeEvent(QResizeEvent* event)
{
    QWidget::resizeEvent(event);
    place();
}

void CollectiveLane::changeEvent(QEvent* event)
{
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::StyleChange)
        place();
}

} // namespace headroom
