// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/actions.h"

#include <QAction>
#include <QActionGroup>
#include <QKeySequence>
#include <QMenu>
#include <QMenuBar>
#include <QUndoStack>
#include <QWidget>

namespace headroom {

Actions::Actions(QWidget* window)
    : QObject(window)
    , window_(window)
{
    open = make(tr("&Open…"),
                tr("Open a recorded step (.hrs), a model (.pt2, .pt), a training script (.py) or a memory snapshot"),
                "Ctrl+O");
    compare = make(tr("Compare &with…"),
                   tr("Compare the peak with another step, a memory snapshot or a trace of torch.profiler; a "
                      "measured step lies over the prediction"),
                   "Ctrl+M");
    stopComparing = make(tr("&Stop comparing"), tr("Show the plan again"), "Ctrl+Shift+W");
    stopComparing->setEnabled(false);
    closeStep = make(tr("&Close"), tr("Close the open step and show the start page"), "Ctrl+W");
    exportPolicy = make(tr("Export &policy…"), tr("Write the plan as policy.json for PyTorch training"), "Ctrl+E");
    exportReport = make(tr("Export repor&t…"),
                        tr("Write an HTML page about the step and the plan, to read and to share"), "Ctrl+Shift+R");
    exportTimeline = make(tr("&Timeline…"), tr("Save the memory timeline as SVG, PDF, PNG or CSV"), "Ctrl+Shift+E");
    exportTradeOff
        = make(tr("Trade-&off curves…"), tr("Save the trade-off curves as SVG, PDF, PNG or CSV"), "Ctrl+Shift+O");
    exportFrontier
        = make(tr("&Frontier…"), tr("Save recompute time against budget as SVG, PDF, PNG or CSV"), "Ctrl+Shift+F");
    quit = make(tr("&Quit"), tr("Close the window"), "Ctrl+Q");
    quit->setMenuRole(QAction::QuitRole);
    undo = make(tr("&Undo"), tr("Take back the last change of budget or pins"), "Ctrl+Z");
    redo = make(tr("&Redo"), tr("Do again what was taken back"), "Ctrl+Shift+Z");
    planModules = make(tr("Plan by &module"), tr("Meet the budget with modules that are checkpointed"), "Ctrl+7");
    planOps = make(tr("Plan by &op"), tr("Meet the budget with single ops of the whole step, as torch.compile does"),
                   "Ctrl+8");
    copyFraction = make(tr("Copy &fraction for torch.compile"),
                        tr("Put the lines that set activation_memory_budget on the clipboard"), "Ctrl+Shift+P");
    calibratedTimes
        = make(tr("Calibrated &times"), tr("Ops take as long as was measured on the GPU, or as the time model says"),
               "Ctrl+Shift+M");
    calibratedTimes->setCheckable(true);
    calibratedTimes->setEnabled(false);
    pinFree = make(tr("Let the plan &decide"), tr("Take away the pin of the selected module"), "Ctrl+L");
    pinKeep = make(tr("&Keep everything"), tr("Pin the selected module: nothing is recomputed"), "Ctrl+K");
    pinRecompute = make(tr("&Recompute"), tr("Pin the selected module: checkpoint"), "Ctrl+R");
    pinOffload
        = make(tr("O&ffload to the host"), tr("Pin the selected module: saved tensors go to the host"), "Ctrl+H");
    clearPins = make(tr("&Leave all modules to the plan"), tr("Take away all pins"), "Ctrl+Shift+L");
    verifyPlan = make(tr("&Verify plan"), tr("Run the step with the plan and without, and compare with the prediction"),
                      "Ctrl+Shift+V");
    copyPicture
        = make(tr("&Copy timeline as picture"), tr("Put a picture of the timeline on the clipboard"), "Ctrl+Shift+C");
    copyTable = make(tr("Copy timeline as &table"), tr("Put the numbers of the visible timeline on the clipboard"),
                     "Ctrl+Shift+T");
    openLine = make(tr("&Open the source line"),
                    tr("Open the line of the selected block or op, or of the peak, in the editor"), "Ctrl+G");
    chooseEditor
        = make(tr("&Editor for source lines…"), tr("Choose the program that opens a source line"), "Ctrl+Alt+G");
    findModule = make(tr("&Find module"), tr("Filter the module tree by name"), "Ctrl+F");
    fitStep = make(tr("Show &whole step"), tr("Zoom out until the whole step is visible"), "Ctrl+0");
    zoomBack = make(tr("Zoom &back"), tr("Show what was visible before the last zoom"), "Alt+Left");
    zoomToSelection = make(tr("Zoom to &selection"), tr("Show the selected range of time"), "Ctrl+J");
    selectVisible = make(tr("Select the &visible range"),
                         tr("Filter the tables by the range of time that the timeline shows"), "Ctrl+Shift+J");
    stackByCategory = make(tr("Stack by &category"), tr("Timeline: parameters, activations, … stacked"), "Ctrl+4");
    stackByModule = make(tr("Stack by &module"), tr("Timeline: modules stacked"), "Ctrl+5");
    showTradeOff = make(tr("&Trade-off"), tr("Show the trade-off curve of the selected module"), "Ctrl+1");
    showLiveBlocks = make(tr("&Live blocks"), tr("Show what is alive at the pinned instant, or at the peak"), "Ctrl+2");
    showOps = make(tr("&Ops"), tr("Show the ops of the selected module"), "Ctrl+3");
    showReserved = make(tr("&Reserved memory"),
                        tr("Show what the caching allocator reserves, and what other settings change"), "Ctrl+6");
    showFit = make(tr("F&it"), tr("Show sizes of the step that run on cards, and the fastest"), "Ctrl+9");
    whatHelps = make(tr("What would &help"), tr("List changes that save memory on the card, and the cost of each"),
                     "Ctrl+Shift+H");
    showPeaks = make(tr("&Compared peaks"), tr("Show how the peaks of two steps differ, and why"), "Ctrl+Shift+D");
    themeDesktop = make(tr("As the &desktop"), tr("Light or dark as the desktop is"), "Ctrl+Alt+0");
    themeLight = make(tr("&Light"), tr("Dark text on light ground"), "Ctrl+Alt+1");
    themeDark = make(tr("&Dark"), tr("Light text on dark ground"), "Ctrl+Alt+2");
    manual = make(tr("&Manual"), tr("Open the page of the manual for what has the focus"), "F1");
    about = make(tr("&About Headroom"), tr("Version, licence and where to get help"), "Ctrl+F1");
    about->setMenuRole(QAction::AboutRole);
    aboutQt = make(tr("About &Qt"), tr("Version and licence of Qt"), "Shift+F1");
    aboutQt->setMenuRole(QAction::AboutQtRole);

    const auto exclusive = [this](std::initializer_list<QAction*> actions) {
        auto* group = new QActionGroup(this);
        for (QAction* action : actions) {
            action->setCheckable(true);
            group->addAction(action);
        }
    };
    exclusive({themeDesktop, themeLight, themeDark});
    exclusive({stackByCategory, stackByModule});
    exclusive({showTradeOff, showLiveBlocks, showOps, showReserved, showFit, showPeaks});
    exclusive({pinFree, pinKeep, pinRecompute, pinOffload});
    exclusive({planModules, planOps});
    planModules->setChecked(true);
    showTradeOff->setChecked(true);
    stackByCategory->setChecked(true);

    recentMenu = new QMenu(tr("Open &recent"), window_);
    pictureMenu = new QMenu(tr("Export p&icture"), window_);
    pictureMenu->addActions({exportTimeline, exportTradeOff, exportFrontier});
}

QAction* Actions::make(const QString& text, const QString& tip, const char* shortcut)
{
    auto* action = new QAction(text, this);
    action->setStatusTip(tip);
    QString toolTip = tip;
    if (shortcut) {
        action->setShortcut(QKeySequence(QLatin1String(shortcut)));
        toolTip = tr("%1 (%2)").arg(tip, action->shortcut().toString(QKeySequence::NativeText));
    }
    action->setToolTip(toolTip);
    window_->addAction(action);
    return action;
}

void Actions::fillMenuBar(QMenuBar* bar)
{
    QMenu* file = bar->addMenu(tr("&File"));
    file->addAction(open);
    file->addMenu(recentMenu);
    file->addActions({compare, stopComparing});
    file->addAction(closeStep);
    file->addSeparator();
    file->addActions({exportPolicy, exportReport});
    file->addMenu(pictureMenu);
    file->addSeparator();
    file->addAction(quit);

    QMenu* edit = bar->addMenu(tr("&Edit"));
    edit->addActions({undo, redo});
    edit->addSeparator();
    edit->addActions({copyPicture, copyTable});
    edit->addSeparator();
    edit->addActions({findModule, openLine});

    QMenu* plan = bar->addMenu(tr("&Plan"));
    plan->addActions({planModules, planOps});
    plan->addSeparator();
    plan->addActions({pinFree, pinKeep, pinRecompute, pinOffload});
    plan->addSeparator();
    plan->addAction(clearPins);
    plan->addSeparator();
    plan->addActions({verifyPlan, copyFraction});
    plan->addSeparator();
    plan->addAction(calibratedTimes);

    QMenu* view = bar->addMenu(tr("&View"));
    view->addActions({fitStep, zoomBack, zoomToSelection, selectVisible});
    view->addSeparator();
    view->addActions({stackByCategory, stackByModule});
    view->addSeparator();
    view->addActions({showTradeOff, showLiveBlocks, showOps, showReserved, showFit, showPeaks});
    view->addSeparator();
    view->addAction(whatHelps);
    view->addSeparator();
    QMenu* theme = view->addMenu(tr("&Theme"));
    theme->addActions({themeDesktop, themeLight, themeDark});
    view->addAction(chooseEditor);

    QMenu* help = bar->addMenu(tr("&Help"));
    help->addAction(manual);
    help->addSeparator();
    help->addActions({about, aboutQt});
    for (QMenu* menu : {file, edit, plan, view, theme, help, recentMenu, pictureMenu})
        menu->setToolTipsVisible(true);
}

void Actions::wireUndo(QUndoStack& stack)
{
    const auto name = [](QAction* action, const QString& verb) {
        return [action, verb](const QString& what) {
            action->setText(what.isEmpty() ? verb : verb + QLatin1Char(' ') + what);
        };
    };
    connect(&stack, &QUndoStack::undoTextChanged, this, name(undo, tr("&Undo")));
    connect(&stack, &QUndoStack::redoTextChanged, this, name(redo, tr("&Redo")));
    connect(&stack, &QUndoStack::canUndoChanged, undo, &QAction::setEnabled);
    connect(&stack, &QUndoStack::canRedoChanged, redo, &QAction::setEnabled);
    connect(undo, &QAction::triggered, &stack, &QUndoStack::undo);
    connect(redo, &QAction::triggered, &stack, &QUndoStack::redo);
    undo->setEnabled(false);
    redo->setEnabled(false);
}

void Actions::setDocumentOpen(bool isOpen)
{
    for (QAction* action :
         {planModules,     planOps,         copyFraction,  closeStep,    exportPolicy,   exportTimeline, exportTradeOff,
          exportFrontier,  pinFree,         pinKeep,       pinRecompute, pinOffload,     clearPins,      copyPicture,
          copyTable,       stackByCategory, stackByModule, findModule,   verifyPlan,     fitStep,        zoomBack,
          zoomToSelection, selectVisible,   exportReport,  showTradeOff, showLiveBlocks, showOps,        showReserved,
          showFit,         showPeaks,       compare,       whatHelps,    openLine})
        action->setEnabled(isOpen);
    pictureMenu->setEnabled(isOpen);
}

} // namespace headroom
