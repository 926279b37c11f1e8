// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/tradeoff_view.h"

#include "views/plot/legend_bar.h"
#include "views/plot/number_text.h"
#include "views/plot/tradeoff_chart.h"
#include "views/plot/tradeoff_table.h"
#include "views/theme/looks.h"

#include <QVBoxLayout>

#include <cmath>
#include <utility>

namespace headroom {

TradeOffView::TradeOffView(QWidget* parent)
    : QWidget(parent)
    , head_(new LegendBar(this))
    , chart_(new TradeOffChart(this))
    , table_(new TradeOffTable(this))
{
    auto* column = makeLayout<QVBoxLayout>(this, {12, 8, 8, 8}, 2);
    column->addWidget(head_);
    column->addWidget(chart_, 1);
    connect(chart_, &TradeOffChart::pointChosen, this, [this](double ratio) { Q_EMIT pointChosen(fqn_, ratio); });
    connect(chart_, &TradeOffChart::lookChanged, this, &TradeOffView::showPicture);
    showPicture();
}

QString TradeOffView::whyEmpty(const TradeOffPicture& picture) const
{
    if (!info_)
        return tr("Open a step to see what its memory costs");
    if (!picture.selected)
        return tr("Select a module to see what its memory costs to recompute");
    if (picture.selected->isLeaf)
        return tr("%1 has no modules inside: only a module with children is checkpointed")
            .arg(QString::fromStdString(fqn_));
    return tr("%1 keeps nothing that could be recomputed").arg(QString::fromStdString(fqn_));
}

void TradeOffView::showHead(const TradeOffPicture& picture)
{
    const auto& theme = Theme::of(*this);
    std::vector<LegendEntry> entries;
    if (!picture.curve.empty()) {
        if (!picture.estimate.empty()) {
            entries.push_back({tr("ways to checkpoint it"), theme.text, LegendEntry::Symbol::line});
            entries.push_back({tr("PyTorch's estimate"), theme.hatch, LegendEntry::Symbol::line});
        }
        if (!picture.others.empty())
            entries.push_back({tr("others of its class"), theme.hatch, LegendEntry::Symbol::line});
        if (picture.hasPlan)
            entries.push_back({tr("chosen by the plan"), theme.accent, LegendEntry::Symbol::dot});
        if (picture.hasPlan && price_ > 0)
            entries.push_back({tr("%1 ms per GiB").arg(price_, 0, 'f', price_ < 10 ? 1 : 0), theme.accent,
                               LegendEntry::Symbol::dash});
    }
    head_->setTitle(picture.selected ? tr("Trade-off of %1").arg(QString::fromStdString(fqn_)) : tr("Trade-off"));
    head_->setEntries(std::move(entries));
}

TradeOffPicture TradeOffView::picture() const
{
    if (!info_)
        return {};
    return tradeOffPicture(*info_, fqn_, planned_, waysFqn_ == fqn_ ? ways_ : std::vector<ModuleWay>());
}

void TradeOffView::showPicture()
{
    const auto picture = this->picture();
    showHead(picture);
    chart_->setPicture(picture, price_, picture.curve.empty() ? whyEmpty(picture) : QString());
    table_->setPicture(picture);
}

void TradeOffView::setModules(ModuleInfoPtr info)
{
    info_ = std::move(info);
    ways_.clear();
    planned_ = {};
    price_ = 0;
    showPicture();
}

void TradeOffView::select(const std::string& fqn)
{
    if (fqn == fqn_)
        return;
    fqn_ = fqn;
    showPicture();
}

void TradeOffView::setWays(const std::string& fqn, std::vector<ModuleWay> ways)
{
    waysFqn_ = fqn;
    ways_ = std::move(ways);
    showPicture();
}

void TradeOffView::setPlan(PlannedPoint planned, double msPerGiB)
{
    price_ = std::isfinite(msPerGiB) ? msPerGiB : 0;
    planned_ = std::move(planned);
    showPicture();
}

void TradeOffView::clearPlan()
{
    planned_ = {};
    showPicture();
}

QAbstractItemModel* TradeOffView::table() const
{
    return table_;
}

} // namespace headroom
