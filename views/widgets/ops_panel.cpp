// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/ops_panel.h"

#include "views/plot/timeline_layers.h"
#include "views/theme/styles.h"
#include "views/theme/theme.h"

#include <QFontMetrics>
#include <QLabel>
#include <QPainter>
#include <QPushButton>
#include <QVBoxLayout>

namespace headroom {

/// The ops with a changed decision as rows, with the triangles of the timeline: filled for ops that the plan recomputes
/// now, hollow for the others.
class OpsPanel::ChangedOpList : public QWidget
{
public:
    explicit ChangedOpList(QWidget* parent)
        : QWidget(parent)
    {
        setObjectName(QStringLiteral("flips"));
        setAccessibleName(OpsPanel::tr("Ops with a changed decision at this step of the frontier"));
        setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    }

    void setRows(std::vector<OpsFacts::Changed> rows)
    {
        const bool resized = rows.size() != rows_.size();
        rows_ = std::move(rows);
        QStringList lines;
        for (const auto& row : rows_)
            lines << QStringLiteral("%1: %2, %3").arg(row.op, row.decision, row.bytes);
        setAccessibleDescription(lines.join(QStringLiteral("; ")));
        if (resized)
            updateGeometry();
        update();
    }

    QSize sizeHint() const override { return {240, static_cast<int>(rows_.size()) * rowHeight}; }
    QSize minimumSizeHint() const override { return {200, sizeHint().height()}; }

protected:
    void paintEvent(QPaintEvent*) override
    {
        const Theme& theme = Theme::of(*this);
        QPainter painter(this);
        painter.setRenderHint(QPainter::Antialiasing);
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            const int top = static_cast<int>(i) * rowHeight;
            paintChangedOpSymbol(painter, QPointF(6, top + 12.5), 8, theme.accent,
                                 rows_[i].again ? theme.accent : theme.card);
            const QRect line(18, top, width() - 18, 18);
            painter.setPen(theme.text);
            painter.setFont(theme.numberStrong);
            painter.drawText(line, Qt::AlignRight | Qt::AlignVCenter, rows_[i].bytes);
            const int taken = QFontMetrics(theme.numberStrong).horizontalAdvance(rows_[i].bytes) + 8;
            painter.setFont(theme.bodyStrong);
            painter.drawText(
                line.adjusted(0, 0, -taken, 0), Qt::AlignLeft | Qt::AlignVCenter,
                QFontMetrics(theme.bodyStrong).elidedText(rows_[i].op, Qt::ElideMiddle, line.width() - taken));
            painter.setPen(theme.secondText);
            painter.setFont(theme.caption);
            painter.drawText(line.translated(0, 16), Qt::AlignLeft | Qt::AlignVCenter, rows_[i].decision);
        }
    }

private:
    static constexpr int rowHeight = 38;

    std::vector<OpsFacts::Changed> rows_;
};

OpsPanel::OpsPanel(QWidget* parent)
    : QWidget(parent)
{
    auto* column = makeLayout<QVBoxLayout>(this, {0, 0, 0, 0}, 6);
    problem_ = addText("opsProblem", false);
    modules_ = new QPushButton(tr("Plan by module"), this);
    modules_->setObjectName(QStringLiteral("opsToModules"));
    plan_ = new QWidget(this);
    for (QWidget* part : {static_cast<QWidget*>(problem_), static_cast<QWidget*>(modules_), plan_})
        column->addWidget(part);

    summary_ = addText("opsSummary", true);
    summary_->setTextFormat(Qt::RichText);
    changedTitle_ = makeLabel({}, "strong", this);
    changedTitle_->setObjectName(QStringLiteral("flipsTitle"));
    changedTitle_->setWordWrap(true);
    changed_ = new ChangedOpList(plan_);
    table_ = new QPushButton(plan_);
    table_->setObjectName(QStringLiteral("opsTable"));
    compileTitle_ = makeLabel(tr("For torch.compile"), "strong", this);
    compile_ = addText("compileLines", false);
    compile_->setProperty("code", true);
    copy_ = new QPushButton(tr("Copy the lines"), plan_);
    copy_->setObjectName(QStringLiteral("copyCompile"));
    policyTitle_ = makeLabel(tr("As save lists for eager PyTorch"), "strong", this);
    policy_ = addText("opsPolicy", true);
    policy_->setTextFormat(Qt::RichText);
    export_ = new QPushButton(tr("Export policy…"), plan_);
    export_->setObjectName(QStringLiteral("exportSaveLists"));

    auto* inside = makeLayout<QVBoxLayout>(plan_, {0, 0, 0, 0}, 6);
    for (QWidget* part : std::initializer_list<QWidget*>{summary_, changedTitle_, changed_, table_, compileTitle_,
                                                         compile_, copy_, policyTitle_, policy_, export_})
        inside->addWidget(part);
    for (const int before : {1, 5, 9}) // groups
        inside->insertSpacing(before, 8);
    connect(modules_, &QPushButton::clicked, this, &OpsPanel::modulesWanted);
    connect(table_, &QPushButton::clicked, this, &OpsPanel::tableWanted);
    connect(copy_, &QPushButton::clicked, this, &OpsPanel::copyWanted);
    connect(export_, &QPushButton::clicked, this, &OpsPanel::exportWanted);
}

QLabel* OpsPanel::addText(const char* name, bool second)
{
    auto* label = makeLabel(this);
    label->setObjectName(QLatin1String(name));
    label->setWordWrap(true);
    label->setTextInteractionFlags(Qt::TextSelectableByMouse);
    label->setProperty("second", second);
    return label;
}

void OpsPanel::setFacts(const OpsFacts& facts)
{
    const bool broken = !facts.problem.isEmpty();
    problem_->setText(facts.problem);
    problem_->setVisible(broken);
    modules_->setVisible(broken);
    plan_->setVisible(!broken && !facts.summary.isEmpty()); // hidden if no plan fits
    summary_->setText(facts.summary);
    changedTitle_->setText(facts.changedTitle);
    changedTitle_->setVisible(!facts.changedTitle.isEmpty());
    changed_->setRows(facts.changed);
    table_->setVisible(!facts.changed.empty());
    table_->setText(facts.moreChanged.isEmpty() ? tr("Show in the table")
                                                : tr("Show all in the table (%1)").arg(facts.moreChanged));
    const bool compiles = !facts.compileLines.isEmpty();
    compile_->setText(facts.compileLines);
    for (QWidget* part : std::initializer_list<QWidget*>{compileTitle_, compile_, copy_})
        part->setVisible(compiles);
    for (QWidget* part : std::initializer_list<QWidget*>{policyTitle_, policy_, export_})
        part->setVisible(!facts.policy.isEmpty());
    policy_->setText(facts.policy);
    export_->setEnabled(facts.policyReady);
}

} // namespace headroom
