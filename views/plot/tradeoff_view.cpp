// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/tradeoff_view.h"

#include "views/plot/legend_bar.h"
#include "views/plot/number_text.h"
#include "views/plot/tradeoff_chart.h"
#include "views/plot/tradeoff_table.h"

#include <QVBoxLayout>

#include <cmath>
#include <utility>

namespace headroom {

class TradeOffView::Private
{
public:
    explicit Private(TradeOffView* view);

    void update();
    TradeOffPicture picture() const;
    void updateHead(const TradeOffPicture& picture);
    QString whyEmpty(const TradeOffPicture& picture) const;

    TradeOffView* q;
    LegendBar* head;
    TradeOffChart* chart;
    TradeOffTable* table;
    ModuleInfoPtr info;
    std::string fqn;
    std::string waysFqn;
    std::vector<ModuleWay> ways;
    PlannedPoint planned;
    double price = 0; ///< ms per GiB
};

TradeOffView::Private::Private(TradeOffView* view)
    : q(view)
    , head(new LegendBar(view))
    , chart(new TradeOffChart(view))
    , table(new TradeOffTable(view))
{
    auto* column = new QVBoxLayout(q);
    column->setContentsMargins(12, 8, 8, 8);
    column->setSpacing(2);
    column->addWidget(head);
    column->addWidget(chart, 1);
    q->setFocusProxy(chart);
    connect(chart, &TradeOffChart::pointChosen, q, [this](double ratio) { Q_EMIT q->pointChosen(fqn, ratio); });
    connect(chart, &TradeOffChart::lookChanged, q, [this] { update(); });
    update();
}

QString TradeOffView::Private::whyEmpty(const TradeOffPicture& picture) const
{
    if (!info)
        return tr("Open a step to see what its memory costs");
    if (!picture.selected)
        return tr("Select a module to see what its memory costs to recompute");
    if (picture.selected->isLeaf)
        return tr("%1 has no modules inside: only a module with children is checkpointed")
            .arg(QString::fromStdString(fqn));
    return tr("%1 keeps nothing that could be recomputed").arg(QString::fromStdString(fqn));
}

void TradeOffView::Private::updateHead(const TradeOffPicture& picture)
{
    const auto& theme = Theme::of(*q);
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
        if (picture.hasPlan && price > 0)
            entries.push_back(
                {tr("%1 ms per GiB").arg(price, 0, 'f', price < 10 ? 1 : 0), theme.accent, LegendEntry::Symbol::dash});
    }
    head->setTitle(picture.selected ? tr("Trade-off of %1").arg(QString::fromStdString(fqn)) : tr("Trade-off"));
    head->setEntries(std::move(entries));
}

TradeOffPicture TradeOffView::Private::picture() const
{
    if (!info)
        return {};
    if (!ways.empty() && waysFqn == fqn)
        return tradeOffPicture(*info, fqn, ways, planned);
    return tradeOffPicture(*info, fqn, planned);
}

void TradeOffView::Private::update()
{
    const auto picture = this->picture();
    updateHead(picture);
    chart->setPicture(picture, price, picture.curve.empty() ? whyEmpty(picture) : QString());
    table->setPicture(picture);
}

TradeOffView::TradeOffView(QWidget* parent)
    : QWidget(parent)
    , d_(std::make_unique<Private>(this))
{
}

TradeOffView::~TradeOffView() = default;

void TradeOffView::setModules(ModuleInfoPtr info)
{
    d_->info = std::move(info);
    d_->ways.clear();
    d_->planned = {};
    d_->price = 0;
    d_->update();
}

void TradeOffView::select(const std::string& fqn)
{
    if (fqn == d_->fqn)
        return;
    d_->fqn = fqn;
    d_->update();
}

void TradeOffView::setWays(const std::string& fqn, std::vector<ModuleWay> ways)
{
    d_->waysFqn = fqn;
    d_->ways = std::move(ways);
    d_->update();
}

void TradeOffView::setPlan(PlannedPoint planned, double msPerGiB)
{
    d_->price = std::isfinite(msPerGiB) ? msPerGiB : 0;
    d_->planned = std::move(planned);
    d_->update();
}

void TradeOffView::clearPlan()
{
    d_->planned = {};
    d_->update();
}

std::string TradeOffView::selected() const
{
    return d_->fqn;
}

QAbstractItemModel* TradeOffView::table() const
{
    return d_->table;
}

QSize TradeOffView::sizeHint() const
{
    return {860, 320};
}

QSize TradeOffView::minimumSizeHint() const
{
    return {320, 200};
}

} // namespace headroom
