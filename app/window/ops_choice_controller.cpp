// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/ops_choice_controller.h"

#include "app/window/session.h"
#include "core/joint/ops_request.h"
#include "views/plot/call_later.h"
#include "views/widgets/inspector_parts.h"

#include <QFileDialog>
#include <QFileInfo>

#include <filesystem>
#include <memory>
#include <utility>

namespace headroom {

OpsChoiceController::OpsChoiceController(Session& session, SolverChoice& view, QObject* parent)
    : QObject(parent)
    , session_(session)
    , view_(view)
{
    connect(&session_, &Session::opsChoiceChanged, this, &OpsChoiceController::show);
    connect(&session_, &Session::stepChanged, this,
            &OpsChoiceController::show); // the times of the file were of the previous step
    connect(&view_, &SolverChoice::solverWanted, this, [this](OpsSolver solver) {
        OpsChoice choice = session_.opsChoice();
        choice.solver = solver;
        session_.setOpsChoice(choice);
    });
    connect(&view_, &SolverChoice::costWanted, this, [this](OpCost cost) {
        if (cost == OpCost::timesOfFile) {
            show(); // the choice changes when there is a file
            askForTimes();
            return;
        }
        OpsChoice choice = session_.opsChoice();
        choice.runtime = cost == OpCost::flops ? OpsRuntime::flops : OpsRuntime::measured;
        choice.times.reset();
        choice.timesFile.clear();
        session_.setOpsChoice(choice);
    });
    show();
}

void OpsChoiceController::show()
{
    const OpsChoice& choice = session_.opsChoice();
    view_.setChoice(choice.solver,
                    choice.runtime == OpsRuntime::flops ? OpCost::flops
                        : choice.times                  ? OpCost::timesOfFile
                                                        : OpCost::time,
                    choice.timesFile);
}

void OpsChoiceController::askForTimes()
{
    const QString path = QFileDialog::getOpenFileName(
        &view_, tr("Times of this step's ops"), QFileInfo(session_.step()->path).absolutePath(),
        tr("The same step, measured on a GPU, or a list of ms (*.hrs *.json);;All files (*)"));
    if (!path.isEmpty())
        takeTimes(path);
}

void OpsChoiceController::takeTimes(const QString& path)
{
    runner_.post([this, path, step = session_.step()](const std::stop_token&) {
        Result<std::vector<double>> read = readOpTimes(std::filesystem::path(path.toStdU16String()), step->trace());
        callLater(this, [this, path, step, times = std::move(read)] {
            if (session_.step() != step)
                return;
            if (!times) {
                Q_EMIT refused(QString::fromStdString(times.error().message));
                return;
            }
            OpsChoice choice = session_.opsChoice();
            choice.runtime = OpsRuntime::measured;
            choice.times = std::make_shared<const std::vector<double>>(*times);
            choice.timesFile = QFileInfo(path).fileName();
            session_.setOpsChoice(choice);
        });
    });
}

} // namespace headroom
