// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QWidget>

class QLabel;
class QProgressBar;
class QPushButton;

namespace headroom {

/// The row for verifying a plan: a button that runs it, the progress, and the verdict.
class VerifyRow : public QWidget
{
    Q_OBJECT
public:
    enum class Verdict { none, kept, broken };

    explicit VerifyRow(QWidget* parent = nullptr);

    void setOffer(bool possible, const QString& why); ///< `why`: why it is not possible, or what the button does
    void setProgress(double share, const QString& stage); ///< share < 0: not known
    void setVerdict(Verdict verdict, const QString& text); ///< none: shows only the button

    QPushButton* button() const noexcept { return button_; }
    QString text() const;
    Verdict verdict() const noexcept { return verdict_; }

Q_SIGNALS:
    void wanted();
    void cancelWanted();

private:
    QPushButton* button_;
    QProgressBar* progress_;
    QLabel* text_;
    Verdict verdict_ = Verdict::none;
    bool running_ = false;
};

} // namespace headroom
