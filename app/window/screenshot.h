// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>
#include <QTimer>

namespace headroom {

class MainWindow;

/// Waits until the window shows the step, its plan, the frontier and the drawn plots, then saves a picture of the
/// window.
class Screenshot : public QObject
{
    Q_OBJECT
public:
    Screenshot(MainWindow& window, QString path, QObject* parent = nullptr);

Q_SIGNALS:
    void saved();
    void failed(const QString& reason); ///< a single sentence

private:
    void look();
    void save();

    MainWindow& window_;
    QString path_;
    QTimer looking_;
    int complete_ = 0; ///< number of consecutive checks at which everything was shown
};

} // namespace headroom
