// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/size_fields.h"

#include "views/theme/styles.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QProgressBar>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QToolButton>
#include <QWheelEvent>

#include <algorithm>
#include <bit>
#include <limits>

namespace headroom {
namespace {

constexpr int widestField = 84; // a size without a bound would take the width of the largest number
constexpr int widestName = 76; ///< a script's argument may have a long name
constexpr int widestSizes = 120; ///< "recording --per-device-train-batch-size 64"
constexpr int mostShown = std::numeric_limits<int>::max();

/// A size. The arrows move by about an eighth, in powers of two, as batches and sequences are chosen.
class SizeField : public QSpinBox
{
public:
    explicit SizeField(QWidget* parent)
        : QSpinBox(parent)
    {
        setProperty("stepped", true); // the style
        setFocusPolicy(Qt::StrongFocus);
    }

    void stepBy(int steps) override
    {
        const int from = steps < 0 ? value() - 1 : value();
        const auto eighth = static_cast<unsigned>(std::max(from / 8, 1));
        setSingleStep(static_cast<int>(std::bit_floor(eighth)));
        QSpinBox::stepBy(steps);
    }

protected:
    void wheelEvent(QWheelEvent* event) override { event->ignore(); } // scrolling past must not start a recording
};

/// Shows a text in at most `width`, and the whole text in the tooltip.
void setShortened(QLabel& label, const QString& text, int width)
{
    label.setText(label.fontMetrics().elidedText(text, Qt::ElideLeft, width));
    label.setToolTip(label.text() == text ? QString() : text);
}

int shown(std::int64_t value)
{
    return static_cast<int>(std::clamp<std::int64_t>(value, 0, mostShown));
}

} // namespace

SizeFields::SizeFields(QWidget* parent)
    : QWidget(parent)
    , busy_(new QWidget(this))
    , progress_(makeProgressBar(busy_))
    , busyText_(makeLabel({}, "second", busy_))
    , cancel_(makeCloseButton(tr("Keep the step unchanged (Esc)"), busy_))
    , result_(makeLabel(this))
{
    setObjectName(QStringLiteral("sizeFields"));
    progress_->setFixedWidth(72);
    cancel_->setObjectName(QStringLiteral("cancelSize"));
    cancel_->setAccessibleName(tr("Cancel the recording at the new size"));
    result_->setObjectName(QStringLiteral("sizeResult"));
    auto* busyRow = makeLayout<QHBoxLayout>(busy_, {8, 0, 0, 0}, 6);
    busyRow->addWidget(busyText_);
    busyRow->addWidget(progress_);
    busyRow->addWidget(cancel_);
    result_->setIndent(8);
    auto* row = makeLayout<QHBoxLayout>(this, {0, 0, 0, 0}, 6);
    row->addWidget(busy_);
    row->addWidget(result_);
    connect(cancel_, &QToolButton::clicked, this, &SizeFields::cancelWanted);
    setResult({});
}

void SizeFields::setDimensions(const std::vector<StepInfo::Dimension>& dimensions)
{
    const bool same
        = std::ranges::equal(dimensions, dimensions_, {}, &StepInfo::Dimension::name, &StepInfo::Dimension::name);
    dimensions_ = dimensions;
    if (!same) {
        for (QWidget* widget : fields_)
            widget->deleteLater();
        for (QWidget* widget : names_)
            widget->deleteLater();
        fields_.clear();
        names_.clear();
        auto* row = static_cast<QHBoxLayout*>(layout());
        int place = 0;
        for (const StepInfo::Dimension& dimension : dimensions_) {
            const QString name = QString::fromStdString(dimension.name);
            auto* field = new SizeField(this);
            field->setObjectName(QStringLiteral("size-") + name);
            field->setAccessibleName(name);
            field->setToolTip(tr("Records the step again at another %1; budget and pins stay").arg(name));
            field->setKeyboardTracking(false);
            field->setMaximumWidth(widestField);
            auto* label = makeLabel({}, "second", this);
            label->ensurePolished();
            setShortened(*label, name, widestName);
            label->setBuddy(field);
            row->insertWidget(place++, label);
            row->insertWidget(place++, field);
            names_.push_back(label);
            fields_.push_back(field);
            connect(field, &QSpinBox::valueChanged, this, [this, name](int value) { Q_EMIT sizeWanted(name, value); });
        }
    }
    setVisible(!dimensions_.empty());
    showValues();
}

void SizeFields::showValues()
{
    for (std::size_t i = 0; i < fields_.size(); ++i) {
        const QSignalBlocker quiet(fields_[i]);
        const StepInfo::Dimension& dimension = dimensions_[i];
        fields_[i]->setRange(shown(dimension.least), dimension.most == 0 ? mostShown : shown(dimension.most));
        fields_[i]->setValue(shown(dimension.value));
        fields_[i]->setAccessibleDescription(dimension.most == 0
                                                 ? tr("at least %1").arg(dimension.least)
                                                 : tr("from %1 to %2").arg(dimension.least).arg(dimension.most));
    }
}

void SizeFields::setRecording(double share, const QString& text)
{
    result_->hide();
    busy_->show();
    setShortened(*busyText_, tr("recording %1").arg(text), widestSizes);
    showShare(*progress_, share);
}

void SizeFields::setResult(const QString& text)
{
    busy_->hide();
    result_->setText(text);
    result_->setVisible(!text.isEmpty());
    showValues();
}

QString SizeFields::result() const
{
    return result_->text();
}

bool SizeFields::recording() const
{
    return !busy_->isHidden();
}

QSpinBox* SizeFields::field(const QString& name) const
{
    for (std::size_t i = 0; i < fields_.size(); ++i) {
        if (QString::fromStdString(dimensions_[i].name) == name)
            return fields_[i];
    }
    return nullptr;
}

void SizeFields::keyPressEvent(QKeyEvent* event)
{
    if (event->key() == Qt::Key_Escape)
        Q_EMIT cancelWanted();
    else
        QWidget::keyPressEvent(event);
}

} // namespace headroom
