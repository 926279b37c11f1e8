// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/inspector.h"

#include "views/plot/number_text.h"
#include "views/theme/styles.h"
#include "views/widgets/inspector_parts.h"
#include "views/widgets/labels.h"
#include "views/widgets/ops_panel.h"

#include <QButtonGroup>
#include <QFrame>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QScrollBar>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QToolButton>
#include <QVBoxLayout>

namespace headroom {
namespace {

constexpr int margin = 16;
constexpr int preferredWidth = 290;
constexpr int mostGpus = 4096;

WrappedLabel* makeText(QWidget* parent, const char* objectName, bool second)
{
    auto* label = new WrappedLabel(parent);
    label->setObjectName(QLatin1String(objectName));
    label->setProperty("second", second);
    return label;
}

} // namespace

Inspector::Inspector(QWidget* parent)
    : QScrollArea(parent)
{
    setObjectName(QStringLiteral("inspector"));
    setAccessibleName(tr("Inspector"));
    setWidgetResizable(true);
    setFrameShape(QFrame::NoFrame);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    auto* content = new QWidget;
    content->setObjectName(QStringLiteral("inspectorContent"));
    auto* column = makeLayout<QVBoxLayout>(content, {margin, 14, margin, 14}, 6);
    setWidget(content);
    content->setAutoFillBackground(false);
    viewport()->setAutoFillBackground(false);

    makeHead(column);
    makeInfeasible(column);
    makeOptions(column);
    makeSolver(column);
    column->addStretch(1);
    setInfeasible(std::nullopt);
    options_->hide();
}

void Inspector::makeHead(QVBoxLayout* column)
{
    name_ = new ElidedLabel(ElidedLabel::Elide::name, this);
    name_->setObjectName(QStringLiteral("moduleName"));
    name_->setProperty("selection", true);
    description_ = makeText(this, "moduleDescription", true);
    column->addWidget(name_);
    line_ = makeLabel(this);
    line_->setObjectName(QStringLiteral("moduleLine"));
    line_->setWordWrap(true);
    line_->hide();
    connect(line_, &QLabel::linkActivated, this, &Inspector::lineWanted);
    column->addWidget(description_);
    column->addWidget(line_);
    column->addSpacing(8);
}

void Inspector::makeInfeasible(QVBoxLayout* column)
{
    infeasible_ = new QWidget(this);
    auto* inside = makeLayout<QVBoxLayout>(infeasible_, {0, 0, 0, 8}, 6);
    infeasibleHeadline_ = makeText(infeasible_, "infeasibleHeadline", false);
    infeasibleHeadline_->setProperty("title", true);
    infeasibleHeadline_->setProperty("danger", true);
    infeasibleReason_ = makeText(infeasible_, "infeasibleReason", false);
    infeasibleAdvice_ = makeText(infeasible_, "infeasibleAdvice", true);
    leastBudget_ = new QPushButton(infeasible_);
    leastBudget_->setObjectName(QStringLiteral("leastBudget"));
    inside->addWidget(infeasibleHeadline_);
    inside->addWidget(infeasibleReason_);
    inside->addWidget(leastBudget_);
    inside->addWidget(infeasibleAdvice_);
    column->addWidget(infeasible_);
    connect(leastBudget_, &QPushButton::clicked, this, &Inspector::leastBudgetWanted);
}

void Inspector::makeOptions(QVBoxLayout* column)
{
    options_ = new QWidget(this);
    auto* inside = makeLayout<QVBoxLayout>(options_, {0, 0, 0, 0}, 2);
    auto* title = makeLabel(tr("What to keep"), "strong", options_);
    inside->addWidget(title);
    inside->addSpacing(4);
    decided_ = new OptionButton(tr("Let the plan decide"), options_);
    keepAll_ = new OptionButton(tr("Keep everything"), options_);
    recompute_ = new OptionButton(tr("Recompute"), options_);
    offload_ = new OptionButton(tr("Offload to the host"), options_);
    decided_->setObjectName(QStringLiteral("pinFree"));
    keepAll_->setObjectName(QStringLiteral("pinKeep"));
    recompute_->setObjectName(QStringLiteral("pinRecompute"));
    offload_->setObjectName(QStringLiteral("pinOffload"));
    offload_->setToolTip(tr("Pin: what this module saves goes to the host and comes back, whatever the copies cost"));
    decided_->setToolTip(tr("The solver chooses what this module keeps"));
    keepAll_->setToolTip(tr("Pin: nothing of this module is recomputed"));
    recompute_->setToolTip(tr("Pin: this module is checkpointed; the solver chooses how much the module keeps"));
    auto* group = new QButtonGroup(this);
    for (OptionButton* option : {decided_, keepAll_, recompute_, offload_}) {
        group->addButton(option);
        inside->addWidget(option);
    }
    connect(decided_, &QRadioButton::clicked, this, [this] { Q_EMIT pinWanted(std::nullopt); });
    connect(keepAll_, &QRadioButton::clicked, this, [this] { Q_EMIT pinWanted(Pin::save); });
    connect(recompute_, &QRadioButton::clicked, this, [this] { Q_EMIT pinWanted(Pin::recompute); });
    connect(offload_, &QRadioButton::clicked, this, [this] { Q_EMIT pinWanted(Pin::offload); });
    inside->addSpacing(8);
    curveTitle_ = makeLabel({}, "second", options_);
    curveTitle_->setProperty("caption", true);
    curve_ = new CurveTable(options_);
    inside->addWidget(curveTitle_);
    inside->addWidget(curve_);
    column->addWidget(options_);

    whyNot_ = makeText(this, "whyNot", true);
    reason_ = makeText(this, "reason", true);
    column->addWidget(whyNot_);
    column->addSpacing(4);
    column->addWidget(reason_);
}

void Inspector::makeSolver(QVBoxLayout* column)
{
    const auto heading = [&](const QString& text) {
        column->addSpacing(8);
        auto* line = new QFrame(this);
        line->setProperty("separator", true);
        column->addWidget(line);
        column->addSpacing(8);
        auto* label = makeLabel(text, "strong", this);
        column->addWidget(label);
        return label;
    };
    ops_ = new OpsPanel(this);
    ops_->hide();
    column->addSpacing(4);
    column->addWidget(ops_);
    heading(tr("Solver"));
    solver_ = makeText(this, "solverLine", true);
    pins_ = makeText(this, "pinsLine", true);
    clearPins_ = new QPushButton(tr("Leave all to the plan"), this);
    clearPins_->setObjectName(QStringLiteral("clearPins"));
    connect(clearPins_, &QPushButton::clicked, this, &Inspector::pinsCleared);
    choice_ = new SolverChoice(this);
    choice_->hide();
    column->addWidget(solver_);
    column->addWidget(choice_);
    column->addWidget(pins_);
    column->addWidget(clearPins_);
    verify_ = new VerifyRow(this);
    column->addWidget(verify_);

    sharding_ = new QWidget(this);
    sharding_->setLayout(makeSharding());
    sharding_->layout()->setContentsMargins(0, 0, 0, 0);
    column->addWidget(sharding_);
    peakTitle_ = heading(tr("At the peak"));
    column->addSpacing(2);
    peaks_ = new PeakTable(this);
    peaks_->setAccessibleName(tr("Memory at the peak by category"));
    column->addWidget(peaks_);
}

/// "Sharded over [−] 8 GPUs [+]": half or twice as many, as clusters are.
QLayout* Inspector::makeSharding()
{
    worldSize_ = new Calm<QSpinBox>(this);
    worldSize_->setObjectName(QStringLiteral("worldSize"));
    worldSize_->setRange(1, mostGpus);
    worldSize_->setKeyboardTracking(false);
    worldSize_->setButtonSymbols(QAbstractSpinBox::NoButtons);
    worldSize_->setAlignment(Qt::AlignHCenter);
    worldSize_->setFixedWidth(86);
    worldSize_->setToolTip(
        tr("FSDP divides parameters, gradients and optimizer state among so many GPUs; the plan is for a single GPU"));
    worldSize_->setAccessibleName(tr("GPUs that FSDP shards over"));
    connect(worldSize_, &QSpinBox::valueChanged, this, &Inspector::worldSizeWanted);

    const auto button = [this](const QString& sign, const QString& tip, auto next) {
        auto* made = new QToolButton(this);
        made->setText(sign);
        made->setToolTip(tip);
        made->setAccessibleName(tip);
        made->setProperty("segment", true);
        connect(made, &QToolButton::clicked, this, [this, next] { worldSize_->setValue(next(worldSize_->value())); });
        return made;
    };
    auto* label = makeLabel(tr("Sharded over"), "second", this);
    label->setBuddy(worldSize_);
    auto* row = new QHBoxLayout;
    row->setSpacing(2);
    row->addWidget(label, 1);
    row->addWidget(button(QStringLiteral("−"), tr("Half as many GPUs"), [](int count) { return count / 2; }));
    row->addWidget(worldSize_);
    row->addWidget(button(QStringLiteral("+"), tr("Twice as many GPUs"), [](int count) { return 2 * count; }));
    return row;
}

void Inspector::setModule(const ModuleFacts& facts)
{
    name_->setText(facts.name);
    name_->setToolTip(facts.fqn);
    description_->setText(facts.description);
    line_->setVisible(!facts.line.isEmpty());
    setLink(*line_, facts.line);
    const bool possible = facts.treatable && facts.whyNot.isEmpty();
    options_->setVisible(possible);
    whyNot_->setText(facts.whyNot);
    whyNot_->setVisible(!facts.whyNot.isEmpty());
    reason_->setHtml(facts.reason);
    reason_->setVisible(!facts.reason.isEmpty());
    if (!possible)
        return;
    decided_->setDetails(facts.decided.kept, facts.decided.cost);
    keepAll_->setDetails(facts.keepAll.kept, facts.keepAll.cost);
    recompute_->setDetails(facts.recompute.kept, facts.recompute.cost);
    offload_->setVisible(facts.offload.has_value());
    if (facts.offload)
        offload_->setDetails(facts.offload->kept, facts.offload->cost);
    setPossible(*offload_, facts.whyNoOffload);
    OptionButton* chosen = !facts.pin  ? decided_
        : *facts.pin == Pin::save      ? keepAll_
        : *facts.pin == Pin::recompute ? recompute_
                                       : offload_;
    chosen->setChecked(true);
    curveTitle_->setText(facts.curveTitle);
    curve_->setAccessibleName(facts.curveTitle);
    curve_->setPoints(facts.curve, facts.chosenPoint);
    curve_->setVisible(!facts.curve.empty());
    curveTitle_->setVisible(!facts.curve.empty());
}

void Inspector::setNoModule(const QString& name, const QString& description)
{
    name_->setText(name);
    name_->setToolTip(name);
    description_->setText(description);
    line_->hide();
    options_->hide();
    whyNot_->hide();
    reason_->hide();
}

void Inspector::setInfeasible(const std::optional<InfeasibleFacts>& facts)
{
    infeasible_->setVisible(facts.has_value());
    if (!facts)
        return;
    infeasibleHeadline_->setText(facts->headline);
    infeasibleReason_->setHtml(facts->reason);
    infeasibleReason_->setVisible(!facts->reason.isEmpty());
    infeasibleAdvice_->setText(facts->advice);
    infeasibleAdvice_->setVisible(!facts->advice.isEmpty());
    leastBudget_->setVisible(facts->leastBudget > 0);
    leastBudget_->setText(tr("Use %1, the least that fits").arg(bytesText(facts->leastBudget, 2)));
}

void Inspector::setSolver(const QString& line, bool fits, int pins)
{
    solver_->setText(line);
    if (solver_->property("danger").toBool() == fits)
        setDanger(*solver_, !fits);
    pins_->setVisible(pins > 0);
    clearPins_->setVisible(pins > 0);
    pins_->setText(pins == 1 ? tr("One module is pinned by hand.") : tr("%1 modules are pinned by hand.").arg(pins));
}

void Inspector::setWorldSize(int worldSize)
{
    const QSignalBlocker quiet(worldSize_);
    worldSize_->setValue(worldSize);
    worldSize_->setSuffix(worldSize == 1 ? tr(" GPU") : tr(" GPUs"));
}

void Inspector::setByOps(bool ops)
{
    ops_->setVisible(ops);
    choice_->setVisible(ops);
    byOps_ = ops;
    sharding_->setVisible(!byOps_ && !ofJob_);
}

void Inspector::setOfJob(bool is)
{
    ofJob_ = is;
    sharding_->setVisible(!byOps_ && !ofJob_);
}

void Inspector::setShardable(const QString& whyNot)
{
    for (QWidget* part : sharding_->findChildren<QWidget*>(QString(), Qt::FindDirectChildrenOnly))
        setPossible(*part, whyNot);
}

void Inspector::setPeaks(const CategoryBytes& recorded, const std::optional<CategoryBytes>& planned)
{
    peaks_->setPeaks(recorded, planned);
    const ByteUnit unit = byteUnitFor(static_cast<double>(std::max(total(recorded), planned ? total(*planned) : 0)));
    peakTitle_->setText(tr("At the peak, %1").arg(QLatin1String(unit.name)));
}

QSize Inspector::sizeHint() const
{
    return {preferredWidth, 600};
}

QSize Inspector::minimumSizeHint() const
{
    const int content = widget()->minimumSizeHint().width() + verticalScrollBar()->sizeHint().width();
    return {content + 2 * frameWidth(), QScrollArea::minimumSizeHint().height()};
}

} // namespace headroom
