// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/ops_controller.h"

#include "app/recording/recorder_program.h"
#include "app/window/session.h"
#include "core/joint/ops_clock.h"
#include "core/joint/ops_policy.h"
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
        tr("The same step as a GPU measured it, or a list of ms (*.hrs *.json);;All files (*)"));
    if (!path.isEmpty())
        takeTimes(path);
}

void OpsChoiceController::takeTimes(const QString& path)
{
    lane_.post([this, path, step = session_.step()](const std::stop_token&) {
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

namespace {

// The prediction of save lists takes too long to be made for each budget of a drag.
constexpr int restMs = 150;

} // namespace

OpsController::OpsController(Session& session, QObject* parent)
    : QObject(parent)
    , session_(session)
{
    rest_.setSingleShot(true);
    rest_.setInterval(restMs);
    connect(&rest_, &QTimer::timeout, this, &OpsController::askPolicy);
    connect(&session_, &Session::stepAboutToChange, this, &OpsController::forget);
    connect(&session_, &Session::opsChoiceChanged, this, [this] {
        forget();
        ask();
    });
    connect(&session_, &Session::questionChanged, this, &OpsController::ask);
    connect(&session_, &Session::modeChanged, this, [this](PlanMode mode) {
        if (mode != PlanMode::ops)
            forget();
    });
    connect(&session_, &Session::answerChanged, this, [this] {
        if (session_.answer() && session_.answer()->ops)
            rest_.start();
    });
}

template <typename Function>
void OpsController::report(quint64 generation, Function function)
{
    callLater(this, [this, generation, function = std::move(function)] {
        if (generation == generation_)
            function();
    });
}

void OpsController::ask()
{
    if (!session_.isOpen() || session_.mode() != PlanMode::ops)
        return;
    const OpsFrontierPtr& frontier = session_.opsFrontier();
    if (!(frontier && frontier->complete) && asked_ != session_.step() && session_.whyNoOps().isEmpty())
        askFrontier();
    if (frontier)
        askPlan();
}

void OpsController::askFrontier()
{
    asked_ = session_.step();
    frontierRunner_.post([this, step = session_.step(), choice = session_.opsChoice(),
                          generation = generation_](const std::stop_token& stop) {
        const auto refuse = [&](const Error& error) {
            report(generation, [this, why = sentence(QString::fromStdString(error.message))] {
                asked_.reset();
                session_.refuseOps(why);
            });
        };
        if (const Status can = plannable(step->trace()); !can) {
            refuse(can.error());
            return;
        }
        const Result<OpsPlanner> planner = OpsPlanner::create(step->engine->model());
        if (!planner) {
            refuse(planner.error());
            return;
        }
        for (const int points : {fewPoints, allPoints}) {
            Result<OpsFrontier> made = makeOpsFrontier(*planner, choice, points, stop);
            if (stop.stop_requested())
                return;
            if (!made) {
                refuse(made.error());
                return;
            }
            made->complete = points == allPoints;
            const auto frontier = std::make_shared<const OpsFrontier>(*std::move(made));
            report(generation, [this, frontier] { session_.setOpsFrontier(frontier); });
        }
    });
}

void OpsController::askPlan()
{
    const quint64 question = ++question_;
    planRunner_.post([this, step = session_.step(), frontier = session_.opsFrontier(), request = session_.request(),
                      question, generation = generation_](const std::stop_token& stop) {
        PlanAnswer made;
        made.generation = question;
        made.request = request;
        made.ops = std::make_shared<const OpsAnswer>(opsAnswer(frontier, request.budget));
        made.step = plannedStep(*made.ops, request.budget);
        if (!made.fits())
            made.closest = plannedStep(*made.ops, made.ops->plan().peak);
        made.effects = frontier->planner.effects(made.ops->plan());
        if (hasClock(step->trace()))
            made.clock = clockOf(frontier->planner.graph(), made.ops->plan());
        if (stop.stop_requested())
            return;
        const auto answer = std::make_shared<const PlanAnswer>(std::move(made));
        report(generation, [this, answer] { session_.setAnswer(answer); });
    });
}

void OpsController::askPolicy()
{
    const PlanAnswerPtr& answer = session_.answer();
    if (!answer || !answer->ops || !session_.answerIsCurrent())
        return;
    policyRunner_.post([this, of = answer->ops, generation = generation_](const std::stop_token& stop) {
        Result<Policy> policy = opsPolicy(of->frontier->planner.model(), of->plan());
        if (stop.stop_requested())
            return;
        const auto made = std::make_shared<const OpsPolicy>(policy ? OpsPolicy{of, *std::move(policy), {}}
                                                                   : OpsPolicy{of, {}, policy.error().message});
        report(generation, [this, made] { session_.setOpsPolicy(made); });
    });
}

void OpsController::forget()
{
    ++generation_;
    asked_.reset();
    rest_.stop();
    frontierRunner_.cancel();
    planRunner_.cancel();
    policyRunner_.cancel();
}

} // namespace headroom
