// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

namespace headroom {

/// A figure with its caption: a large number in tabular digits, and a small grey text after it. It keeps its width
/// while the number changes.
class ResultFigure : public QWidget
{
    Q_OBJECT
public:
    enum class Mood { normal, old, danger }; ///< old: of the previous plan, while a new one is solved

    explicit ResultFigure(const QString& caption, QWidget* parent = nullptr);

    void setValue(const QString& number, const QString& rest);
    void setMood(Mood mood);
    QString number() const { return number_; }
    QString rest() const { return rest_; }

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return sizeHint(); }

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    QString caption_;
    QString number_;
    QString rest_;
    Mood mood_ = Mood::normal;
    int widest_ = 0;
};

} // namespace headroom
