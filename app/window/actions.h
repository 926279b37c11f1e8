// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>

class QAction;
class QMenu;
class QMenuBar;
class QUndoStack;
class QWidget;

namespace headroom {

/// All actions of the window with text, shortcut and status tip, and the menus. The window connects actions to
/// functions.
class Actions : public QObject
{
    Q_OBJECT
public:
    explicit Actions(QWidget* window);

    void fillMenuBar(QMenuBar* bar);
    void wireUndo(QUndoStack& stack); ///< connects undo and redo; the texts name the change
    void setDocumentOpen(bool open);

    QAction* open;
    QAction* compare;
    QAction* stopComparing;
    QAction* closeStep;
    QAction* exportPolicy;
    QAction* exportReport;
    QAction* exportTimeline;
    QAction* exportTradeOff;
    QAction* exportFrontier;
    QAction* quit;
    QAction* undo;
    QAction* redo;
    QAction* planModules;
    QAction* planOps;
    QAction* copyFraction;
    QAction* calibratedTimes;
    QAction* pinFree;
    QAction* pinKeep;
    QAction* pinRecompute;
    QAction* pinOffload;
    QAction* clearPins;
    QAction* verifyPlan;
    QAction* copyPicture;
    QAction* copyTable;
    QAction* openLine;
    QAction* chooseEditor;
    QAction* findModule;
    QAction* fitStep;
    QAction* zoomBack;
    QAction* zoomToSelection;
    QAction* selectVisible;
    QAction* stackByCategory;
    QAction* stackByModule;
    QAction* showTradeOff;
    QAction* showLiveBlocks;
    QAction* showOps;
    QAction* showReserved;
    QAction* showFit;
    QAction* whatHelps;
    QAction* showPeaks;
    QAction* themeDesktop;
    QAction* themeLight;
    QAction* themeDark;
    QAction* manual;
    QAction* about;
    QAction* aboutQt;

    QMenu* recentMenu;
    QMenu* pictureMenu; ///< also the menu of the header's button

private:
    QAction* make(const QString& text, const QString& tip, const char* shortcut = nullptr);

    QWidget* window_;
};

} // namespace headroom
