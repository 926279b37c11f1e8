// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/plan_controller.h"

#include "app/recording/recorder_program.h"
#include "app/window/session.h"
#include "core/joint/ops_policy.h"
#include "views/plot/call_later.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace headroom {
namespace {

// The prediction of save lists takes too long to be made for each budget of a drag.
constexpr int restMs = 150;

/// Adds to an answer of the engine what the window shows beside: the clock, and what each module moves to the host.
PlanAnswerPtr shownAnswer(const OpenStep& step, PlanAnswer answer)
{
    if (answer.fits()) {
        answer.clock = step.engine->clock(answer.regions);
        if (Result<std::vector<ModuleOffload>> moved
            = offloadByModule(step.trace(), step.engine->model().index(), answer.regions))
            answer.offloads = *std::move(moved);
    }
    return std::make_shared<const PlanAnswer>(std::move(answer));
}

/// The points of a frontier with offload, and points of the frontier without that take less time: plans may be without
/// offload, too. No bound with offload is known of the latter (FrontierPoint::gap).
std::vector<FrontierPoint> lowerOf(std::vector<FrontierPoint> with, const std::vector<FrontierPoint>& without)
{
    for (FrontierPoint point : without) {
        point.gap = 1;
        point.upTo = 0;
        with.push_back(point);
    }
    return withoutWorse(std::move(with));
}

/// The policy by op that sends results to the host, if the policy takes less time than the answer's plan, or if that
/// plan does not fit; else the answer.
PlanAnswerPtr withOffload(const PlanAnswer& answer, const std::stop_token& stop)
{
    Result<PlanAnswer> hosted = hostedAnswer(answer.ops->frontier, answer.request, stop);
    const bool moves = hosted && hosted->plan.offload.moved > 0;
    PlanAnswer better
        = moves && (!answer.fits() || hosted->plan.costMs() < answer.plan.costMs()) ? *std::move(hosted) : answer;
    better.preliminary = false;
    return std::make_shared<const PlanAnswer>(std::move(better));
}

/// The lists of ops to save of an answer by op.
OpsPolicyPtr policyOf(const PlanAnswer& answer)
{
    const OpsDecisions& ops = *answer.ops;
    const StepModel& model = ops.frontier->planner.model();
    const bool moves = answer.plan.offload.moved > 0;
    const Result<Policy> policy = moves ? Result<Policy>(answer.policy(model)) : opsPolicy(model, ops.plan());
    return std::make_shared<const OpsPolicy>(policy ? OpsPolicy{answer.ops, *policy, {}}
                                                    : OpsPolicy{answer.ops, {}, policy.error().message});
}

} // namespace

/// Caches the plan at the least budget, which is shown for every budget that no plan fits.
class PlanController::ClosestPlan
{
public:
    PlanAnswerPtr find(const OpenStepPtr& step, const PlanRequest& request, Bytes leastBudget,
                       const std::stop_token& stop)
    {
        if (leastBudget <= 0)
            return nullptr;
        PlanRequest least = request;
        least.budget = leastBudget;
        if (step_.lock() == step && answer_ && answer_->request == least)
            return answer_;
        Result<PlanAnswer> planned = step->engine->solve(least, stop, firstAnswerMs);
        if (!planned || !planned->fits())
            return nullptr;
        step_ = step;
        planned->request = std::move(least);
        answer_ = shownAnswer(*step, *std::move(planned));
        return answer_;
    }

private:
    std::weak_ptr<const OpenStep> step_;
    PlanAnswerPtr answer_;
};

PlanController::PlanController(Session& session, QObject* parent)
    : QObject(parent)
    , session_(session)
    , closest_(std::make_shared<ClosestPlan>())
{
    staleTimer_.setSingleShot(true);
    staleTimer_.setInterval(patience);
    rest_.setSingleShot(true);
    rest_.setInterval(restMs);
    connect(&staleTimer_, &QTimer::timeout, this, &PlanController::stopStaleSolve);
    connect(&rest_, &QTimer::timeout, this, &PlanController::askOpsPolicy);
    connect(&session_, &Session::stepAboutToChange, this, &PlanController::forget);
    connect(&session_, &Session::stepChanged, this, &PlanController::askFrontier);
    connect(&session_, &Session::pinsChanged, this, &PlanController::askFrontier);
    connect(&session_, &Session::worldSizeChanged, this, &PlanController::askFrontier);
    connect(&session_, &Session::offloadChanged, this, &PlanController::askFrontier);
    connect(&session_, &Session::offloadChanged, this, &PlanController::askHostedFrontier);
    connect(&session_, &Session::requestChanged, this, &PlanController::ask);
    connect(&session_, &Session::stepChanged, this, &PlanController::requestOptions);
    connect(&session_, &Session::selectionChanged, this, &PlanController::requestOptions);
    connect(&session_, &Session::opsChoiceChanged, this, [this] {
        forgetOps();
        if (session_.mode() == PlanMode::ops)
            ask();
    });
    connect(&session_, &Session::modeChanged, this, [this](PlanMode mode) {
        if (mode != PlanMode::ops)
            forgetOps();
    });
    connect(&session_, &Session::answerChanged, this, [this] {
        if (session_.answer() && session_.answer()->ops)
            rest_.start();
    });
    connect(&session_.undoStack(), &QUndoStack::indexChanged, this, [this] { budgetIsGuess_ = false; });
}

void PlanController::ask()
{
    if (!session_.isOpen())
        return;
    if (session_.mode() == PlanMode::modules)
        askModules();
    else
        askOps();
}

void PlanController::askModules()
{
    const quint64 generation = ++askedGeneration_;
    proofRunner_.cancel();
    planRunner_.post([this, step = session_.step(), request = session_.request(), generation, closest = closest_,
                      known = session_.plannedForCard()](const std::stop_token& stop) {
        Result<PlanAnswer> planned = known ? *known : step->engine->solve(request, stop, firstAnswerMs);
        if (!planned) {
            callLater(this, [this, generation, error = planned.error()] { acceptFailure(generation, error); });
            return;
        }
        if (planned->plan.status == PlanStatus::stopped)
            return; // a newer request waits
        planned->request = request;
        planned->plan.budget = request.budget;
        planned->card.reset(); // CardController judges each answer
        planned->preliminary = !known && planned->plan.status == PlanStatus::feasible;
        if (planned->plan.status == PlanStatus::infeasible)
            planned->closest = closest->find(step, request, planned->plan.leastBudget, stop);
        callLater(this, [this, step, generation, answer = shownAnswer(*step, *std::move(planned))] {
            if (generation > answeredGeneration_ && generation == askedGeneration_ && answer->preliminary)
                prove(step, answer->request, generation);
            accept(generation, answer);
        });
    });
    stopStaleSolve();
}

void PlanController::prove(const OpenStepPtr& step, const PlanRequest& request, quint64 generation)
{
    proofRunner_.post([this, step, request, generation](const std::stop_token& stop) {
        Result<PlanAnswer> planned = step->engine->solve(request, stop, proofMs);
        if (!planned || planned->plan.status == PlanStatus::stopped)
            return;
        planned->request = request;
        callLater(this, [this, generation, answer = shownAnswer(*step, *std::move(planned))] {
            if (generation == answeredGeneration_ && !solving())
                show(answer);
        });
    });
}

void PlanController::accept(quint64 generation, const PlanAnswerPtr& answer)
{
    if (generation <= answeredGeneration_)
        return;
    answeredGeneration_ = generation;
    show(answer);
}

void PlanController::show(const PlanAnswerPtr& answer)
{
    if (session_.mode() != answer->mode())
        return; // the mode changed meanwhile
    session_.setAnswer(answer);
    const Plan& plan = answer->plan;
    if (answer->mode() == PlanMode::modules && std::exchange(budgetIsGuess_, false)
        && plan.status == PlanStatus::infeasible && plan.leastBudget > 0)
        session_.suggestBudget(plan.leastBudget);
}

void PlanController::acceptFailure(quint64 generation, const Error& error)
{
    if (generation <= answeredGeneration_)
        return;
    answeredGeneration_ = generation;
    Q_EMIT failed(QString::fromStdString(error.message));
}

void PlanController::stopStaleSolve()
{
    if (planRunner_.stopStale(patience))
        staleTimer_.start();
}

void PlanController::askFrontier()
{
    if (!session_.isOpen())
        return;
    const quint64 generation = ++frontierGeneration_;
    frontierRunner_.cancel();
    frontierRunner_.post([this, step = session_.step(), request = session_.request(),
                          generation](const std::stop_token& stop) {
        const auto tell = [this, generation](auto function) {
            callLater(this, [this, generation, function = std::move(function)] {
                if (generation == frontierGeneration_)
                    function();
            });
        };
        // Takes a share of the time of the frontier with offload, and is shown until that is known.
        FrontierPtr recompute;
        if (request.offload) {
            PlanRequest without = request;
            without.offload = false;
            if (Result<std::vector<FrontierPoint>> found
                = step->engine->frontier(without, frontierPoints, stop, [](const auto&) {}))
                recompute = std::make_shared<const std::vector<FrontierPoint>>(*std::move(found));
            if (stop.stop_requested())
                return;
            tell([this, recompute] { session_.setFrontier(recompute, recompute, false); });
        }
        const auto grown = [this, tell, recompute,
                            next = TaskRunner::Clock::now()](std::vector<FrontierPoint> some) mutable {
            if (TaskRunner::Clock::now() < next)
                return;
            next = TaskRunner::Clock::now() + growthInterval;
            if (recompute)
                some = lowerOf(std::move(some), *recompute);
            tell([this, recompute, frontier = std::make_shared<const std::vector<FrontierPoint>>(std::move(some))] {
                session_.setFrontier(frontier, recompute, false);
            });
        };
        Result<std::vector<FrontierPoint>> found
            = step->engine->frontier(request, request.offload ? offloadFrontierPoints : frontierPoints, stop, grown);
        if (stop.stop_requested())
            return;
        if (found && recompute)
            *found = lowerOf(*std::move(found), *recompute);
        if (!found)
            tell([this, reason = QString::fromStdString(found.error().message)] { Q_EMIT frontierFailed(reason); });
        else
            tell([this, recompute, frontier = std::make_shared<const std::vector<FrontierPoint>>(*std::move(found))] {
                session_.setFrontier(frontier, recompute);
            });
    });
}

void PlanController::requestOptions()
{
    const quint64 generation = ++optionsGeneration_;
    if (!session_.isOpen() || !session_.selected().valid())
        return;
    optionsRunner_.post(
        [this, step = session_.step(), module = session_.selected(), generation](const std::stop_token&) {
            Result<std::vector<ModuleOption>> options = step->engine->moduleOptions(module);
            if (!options)
                return; // the request for a plan reports the same error
            callLater(this,
                      [this, generation,
                       found = std::make_shared<const OptionsOfModule>(OptionsOfModule{module, *std::move(options)})] {
                          if (generation == optionsGeneration_)
                              session_.setOptions(found);
                      });
        });
}

template <typename Function>
void PlanController::reportOps(quint64 generation, Function function)
{
    callLater(this, [this, generation, function = std::move(function)] {
        if (generation == opsGeneration_)
            function();
    });
}

void PlanController::askOps()
{
    const OpsFrontierPtr& frontier = session_.opsFrontier();
    if (!(frontier && frontier->complete) && opsAsked_ != session_.step() && session_.whyNoOps().isEmpty())
        askOpsFrontier();
    if (!frontier)
        return;
    if (hostedOf_ != frontier && !session_.frontierIsFinal())
        askHostedFrontier();
    opsRunner_.post([this, frontier, request = session_.request(), generation = ++askedGeneration_,
                     opsGeneration = opsGeneration_](const std::stop_token& stop) {
        PlanAnswer found = answerOf(frontier, request);
        found.preliminary = request.offload && !(found.fits() && found.plan.recomputeMs == 0);
        if (!stop.stop_requested())
            reportOps(opsGeneration, [this, generation, answer = std::make_shared<const PlanAnswer>(std::move(found))] {
                accept(generation, answer);
            });
    });
}

void PlanController::askOpsFrontier()
{
    opsAsked_ = session_.step();
    opsFrontierRunner_.post([this, step = session_.step(), choice = session_.opsChoice(),
                             generation = opsGeneration_](const std::stop_token& stop) {
        const auto refuse = [&](const Error& error) {
            reportOps(generation, [this, why = sentence(QString::fromStdString(error.message))] {
                opsAsked_.reset();
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
        for (const int points : {fewFractions, allFractions}) {
            Result<OpsFrontier> made = makeOpsFrontier(*planner, choice.request(), points, stop);
            if (stop.stop_requested())
                return;
            if (!made) {
                refuse(made.error());
                return;
            }
            made->complete = points == allFractions;
            const auto frontier = std::make_shared<const OpsFrontier>(*std::move(made));
            reportOps(generation, [this, frontier] {
                session_.setOpsFrontier(frontier);
                askHostedFrontier();
            });
        }
    });
}

void PlanController::askOpsPolicy()
{
    const PlanAnswerPtr& answer = session_.answer();
    const OpsPolicyPtr& known = session_.opsPolicy();
    const bool isMade = known && answer && known->of == answer->ops && !answer->preliminary;
    if (!answer || !answer->ops || isMade || !session_.answerIsCurrent())
        return;
    policyRunner_.cancel();
    policyRunner_.post([this, answer, generation = opsGeneration_](const std::stop_token& stop) {
        const PlanAnswerPtr best = answer->preliminary ? withOffload(*answer, stop) : answer;
        if (stop.stop_requested())
            return;
        reportOps(generation, [this, of = answer->ops, best, made = policyOf(*best)] {
            const PlanAnswerPtr& now = session_.answer();
            if (now && now->preliminary && now->ops == of && session_.answerIsCurrent())
                session_.setAnswer(best);
            session_.setOpsPolicy(made);
        });
    });
}

void PlanController::askHostedFrontier()
{
    const quint64 asked = ++hostedGeneration_;
    hostedRunner_.cancel();
    const OpsFrontierPtr& frontier = session_.opsFrontier();
    hostedOf_.reset();
    if (!session_.request().offload || !frontier || !frontier->complete)
        return;
    hostedOf_ = frontier;
    hostedRunner_.post([this, frontier, asked, request = session_.request(),
                        generation = opsGeneration_](const std::stop_token& stop) mutable {
        std::vector<FrontierPoint> points = frontier->points();
        const Bytes least = points.front().peak;
        const Bytes step = std::max<Bytes>(1, (points.back().peak - least) / hostedFrontierPoints);
        const auto tell = [&](bool isFinal) {
            points = withoutWorse(std::move(points));
            reportOps(generation,
                      [this, asked, isFinal, found = std::make_shared<const std::vector<FrontierPoint>>(points)] {
                          if (asked == hostedGeneration_)
                              session_.setHostedFrontier(found, isFinal);
                      });
        };
        request.budget = points.back().peak;
        for (int point = 0; point < 2 * hostedFrontierPoints && request.budget > step; ++point) {
            request.budget -= step;
            const Result<PlanAnswer> policy = hostedAnswer(frontier, request, stop);
            if (stop.stop_requested())
                return;
            if (!policy && request.budget < least)
                break; // lower budgets neither
            if (!policy || policy->plan.offload.moved == 0)
                continue;
            points.push_back(pointOf(*policy));
            tell(false);
        }
        tell(true);
    });
}

void PlanController::forget()
{
    planRunner_.cancel();
    proofRunner_.cancel();
    frontierRunner_.cancel();
    optionsRunner_.cancel();
    answeredGeneration_ = ++askedGeneration_;
    ++frontierGeneration_;
    ++optionsGeneration_;
    forgetOps();
}

void PlanController::forgetOps()
{
    ++opsGeneration_;
    opsAsked_.reset();
    rest_.stop();
    opsRunner_.cancel();
    opsFrontierRunner_.cancel();
    policyRunner_.cancel();
    hostedRunner_.cancel();
    hostedOf_.reset();
}

} // namespace headroom
