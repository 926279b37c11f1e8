// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractButton>
#include <QStringList>
#include <QWidget>

#include <vector>

class QLabel;
class QVBoxLayout;

namespace headroom {

/// A button as a row of a list: title, grey detail, and at the right the verb of the action.
class RowButton : public QAbstractButton
{
    Q_OBJECT
public:
    RowButton(const QString& title, const QString& detail, const QString& verb, QWidget* parent = nullptr);

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {200, sizeHint().height()}; }

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    QString detail_;
    QString verb_;
};

/// A demo model that can be recorded.
struct DemoModel
{
    QString title; ///< "Transformer, 12 layers"
    QString detail; ///< "batch 8 of 1024 tokens, Adam, on an A100 40 GB"
    QStringList arguments; ///< arguments of `torch-headroom record`: the model and options
    QString name; ///< file name without suffix
};
std::vector<DemoModel> demoModels(); ///< those that the start page offers to record

/// The page shown while no step is open: an area to drop files, help for recording the user's own training step, demo
/// models, and recent files.
class StartPage : public QWidget
{
    Q_OBJECT
public:
    explicit StartPage(QWidget* parent = nullptr);

    void setDemos(std::vector<DemoModel> demos);
    void setRecentFiles(const QStringList& paths);
    void setBusy(bool busy); ///< true: a recording runs, and no second recording can be started

Q_SIGNALS:
    void openWanted();
    void scriptWanted(); ///< request to choose a training script
    void fileWanted(const QString& path);
    void demoWanted(const headroom::DemoModel& demo);

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    QWidget* makeDropZone();
    QWidget* makeOwnStep();

    QLabel* title_;
    QWidget* dropZone_;
    QVBoxLayout* demoRows_;
    QVBoxLayout* recentRows_;
    QLabel* recentTitle_;
    QWidget* demos_;
};

} // namespace headroom
