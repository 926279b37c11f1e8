// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/python/recording_api.h"

#include "core/base/json_reader.h"
#include "core/base/json_text.h"
#include "core/base/try.h"
#include "core/device/card_limit.h"
#include "core/device/real_device.h"
#include "core/device/simulated_device.h"
#include "core/device/simulated_state.h"
#include "core/predict/predict.h"
#include "core/record/captured_graph.h"
#include "core/record/outside_memory.h"
#include "core/record/recorder.h"
#include "core/record/step_recording.h"
#include "core/record/subclass_calls.h"
#include "core/sac/record_summary.h"
#include "core/trace/earlier_steps.h"
#include "core/trace/step_file.h"
#include "core/trace/step_info_json.h"

#include <nlohmann/json.hpp>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace headroom::python {
namespace {

/// The recording of this process. Global, since operators have no context argument.
struct Recording
{
    ModelTree tree;
    std::vector<at::Tensor> optimizerState;
    std::unique_ptr<Recorder> recorder; ///< recorder of the running step
    std::shared_ptr<RealDevice> real; ///< device that steps are measured on; null: the simulated device
    bool begun = false;
    std::uint64_t replaysBefore = 0; ///< CapturedGraph::replays() at the begin of the step
    std::shared_ptr<OutsideMemory> outside; ///< null on a real device
    std::optional<std::unordered_map<const void*, Category>> before; ///< state at the end of the last step
    std::optional<EarlierSteps> earlier; ///< of the finished steps; nullopt: there are none
    std::set<std::string> saving; ///< modulesThatSave() of the finished steps
    StepTracePtr finished;

    void stop()
    {
        if (recorder && begun)
            before = recorder->endState();
        recorder.reset();
        tree = {};
        optimizerState.clear();
        begun = false;
        if (outside)
            outside->stepEnds();
    }
};

template <class Id>
Id idOf(std::int64_t number)
{
    return number < 0 ? Id() : Id(static_cast<std::uint32_t>(number));
}

Recording& recording()
{
    static auto* const instance = new Recording; // operators may be called until the process ends
    return *instance;
}

const DeviceSpec& card()
{
    return recording().real ? recording().real->spec() : sim::simulatedState().spec;
}

Status measureOn(int device)
{
    if (!sim::simulatedState().spec.name.empty())
        return badInput("this process simulates " + sim::simulatedState().spec.name
                        + ", and cannot measure a real GPU as well: start another process");
    if (recording().real && recording().real->device().index() == device)
        return {};
    recording().stop();
    recording().real.reset(); // two traces cannot exist at a time
    ASSIGN_OR_RETURN(auto opened, openCuda(device));
    recording().real = std::move(opened);
    return {};
}

void watch()
{
    recording().earlier.reset();
    recording().saving.clear();
    if (!recording().real)
        recording().outside = OutsideMemory::watch();
}

Status create()
{
    const DeviceSpec& spec = card();
    if (spec.name.empty())
        return Error{ErrorKind::noDevice,
                     "no GPU is simulated in this process: call torch_headroom.simulate() before "
                     "`import torch`"};
    countSubclassCalls();
    recording().stop();
    if (recording().real)
        recording().real->startTracing(); // does nothing if tracing runs; the first step warms tracing up
    recording().recorder = std::make_unique<Recorder>(StepInfo(), spec, recording().real);
    if (recording().before)
        recording().recorder->setStateBefore(*recording().before);
    return {};
}

Status begin()
{
    Recording& running = recording();
    if (!running.recorder)
        return Error{ErrorKind::internal, "a step cannot begin before headroom_recording_new()"};
    running.recorder->setModel(std::move(running.tree));
    running.tree = {};
    if (running.outside)
        running.outside->stepBegins();
    running.recorder->begin();
    running.recorder->reportsRecomputations();
    running.replaysBefore = CapturedGraph::replays();
    running.begun = true;
    return {};
}

void at(int instant)
{
    Recording& running = recording();
    if (!running.recorder)
        return;
    switch (instant) {
    case headroomForwardEnd:
        return running.recorder->mark(Mark::forwardEnd);
    case headroomBackwardEnd:
        return running.recorder->mark(Mark::backwardEnd);
    case headroomOptimizerBegin:
        return running.recorder->beginOptimizer();
    case headroomOptimizerEnd:
        running.recorder->endOptimizer(running.optimizerState);
        return running.optimizerState.clear();
    case headroomZeroGradBegin:
        return running.recorder->beginZeroGrad();
    case headroomZeroGradEnd:
        return running.recorder->endZeroGrad();
    case headroomBackwardGraphBegin:
        return running.recorder->setBuildsBackwardGraph(true);
    case headroomBackwardGraphEnd:
        return running.recorder->setBuildsBackwardGraph(false);
    case headroomOwnUpdateBegin:
        return running.recorder->beginOwnUpdate();
    case headroomOwnUpdateEnd:
        return running.recorder->endOwnUpdate();
    case headroomRecomputationBegin:
        return running.recorder->setRecomputes(true);
    case headroomRecomputationEnd:
        return running.recorder->setRecomputes(false);
    case headroomCompilationBegin:
        return running.recorder->setCompiles(true);
    case headroomCompilationEnd:
        return running.recorder->setCompiles(false);
    case headroomSavesLeft:
        return running.recorder->leaveSaves();
    case headroomCompiledBackwardBegin:
        return running.recorder->setCompilesBackward(true);
    case headroomCompiledBackwardEnd:
        return running.recorder->setCompilesBackward(false);
    default:
        return;
    }
}

void addSetting(StepTracePtr& step, std::string_view name, std::string_view value)
{
    StepTrace noted = *step;
    noted.info.settings.emplace_back(name, value);
    step = std::make_shared<const StepTrace>(std::move(noted));
}

Status finish(std::string_view json)
{
    Recording& running = recording();
    if (!running.begun)
        return Error{ErrorKind::internal, "no step was begun"};
    ASSIGN_OR_RETURN(auto info, stepInfoFromJson(json, "the step's info"));
    StepInfo& known = running.recorder->info();
    info.gpu = known.gpu;
    info.torch = known.torch;
    info.simulated = known.simulated;
    if (!known.simulated)
        info.device = known.device;
    else if (const NcclMemory nccl = sim::communicators(); nccl.communicators > 0) {
        // A step that runs out of memory has not run the collectives of all.
        info.settings.emplace_back("communicators", std::to_string(nccl.communicators));
        info.settings.emplace_back("communicator bytes", std::to_string(nccl.bytes));
    }
    known = std::move(info);
    if (running.earlier)
        known.settings.emplace_back(EarlierSteps::setting,
                                    std::to_string(running.earlier->least) + ' '
                                        + std::to_string(running.earlier->most));
    if (running.outside) {
        running.outside->keepStep();
        running.recorder->setOutside(*running.outside);
        if (const Bytes most = running.outside->mostNotKept(); most > 0)
            known.settings.emplace_back(forwardsOutsideSetting, std::to_string(most));
        std::ranges::move(running.outside->remarks(), std::back_inserter(known.remarks));
    }
    running.before = running.recorder->endState();
    auto trace = running.recorder->finish();
    running.begun = false;
    running.stop();
    if (!trace)
        return trace.error();
    running.finished = std::move(*trace);
    // Ops of a replayed graph belong to no call, so that modules of the graph seem to be left out.
    const bool replayed = CapturedGraph::replays() != running.replaysBefore;
    const std::string leftOut = replayed ? std::string() : leftOutSetting(*running.finished, running.saving);
    if (!leftOut.empty())
        addSetting(running.finished, LeftOutModules::setting, leftOut);
    running.saving.merge(modulesThatSave(*running.finished));
    const Bytes saved = savedForBackward(*running.finished);
    const EarlierSteps earlier = running.earlier.value_or(EarlierSteps{saved, saved});
    running.earlier = EarlierSteps{std::min(earlier.least, saved), std::max(earlier.most, saved)};
    return {};
}

Status addSetting(std::string_view name, std::string_view value)
{
    if (!recording().finished)
        return Error{ErrorKind::internal, "no step was recorded"};
    addSetting(recording().finished, name, value);
    return {};
}

/// StepTrace::memory of a step with other rows in StepTrace::betweenSteps.
struct StepWithEvaluation
{
    std::shared_ptr<const void> step;
    StepTraceBuilder::Outside betweenSteps;
};

Status addEvaluation()
{
    Recording& running = recording();
    if (!running.finished)
        return Error{ErrorKind::internal, "no step was recorded"};
    if (!running.outside)
        return {};
    running.outside->stepBegins(); // ends the time outside of steps
    running.outside->keepStep();
    running.outside->stepEnds();
    auto memory = std::make_shared<const StepWithEvaluation>(running.finished->memory, running.outside->betweenSteps());
    StepTrace noted = *running.finished;
    const StepTraceBuilder::Outside& rows = memory->betweenSteps;
    noted.betweenSteps = {rows.kind, rows.bytes, rows.stream, rows.block};
    noted.memory = std::move(memory);
    for (std::string& remark : running.outside->remarks())
        if (std::ranges::find(noted.info.remarks, remark) == noted.info.remarks.end())
            noted.info.remarks.push_back(std::move(remark));
    running.finished = std::make_shared<const StepTrace>(std::move(noted));
    return {};
}

Status write(const char* path)
{
    if (!recording().finished)
        return Error{ErrorKind::internal, "no step was recorded"};
    return writeStepTrace(*recording().finished, path);
}

Result<std::string> summary()
{
    if (!recording().finished)
        return Error{ErrorKind::internal, "no step was recorded"};
    const StepTrace& trace = *recording().finished;
    ASSIGN_OR_RETURN(const auto timeline, predict(trace, {}));
    return jsonText(recordSummary(trace, card(), timeline));
}

void registered(at::IntArrayRef modules, std::vector<std::string> names, at::TensorList tensors,
                const c10::List<bool>& buffers)
{
    TORCH_CHECK(names.size() == modules.size() && tensors.size() == modules.size() && buffers.size() == modules.size(),
                "torch_headroom.registered needs four lists of equal length");
    for (std::size_t i = 0; i < modules.size(); ++i)
        recording().tree.registered.push_back({idOf<ModuleId>(modules[i]), std::move(names[i]), tensors[i],
                                               buffers.get(i) ? Category::buffer : Category::parameter});
}

void wrapped(at::IntArrayRef modules, at::TensorList tensors)
{
    TORCH_CHECK(tensors.size() == modules.size(), "torch_headroom.wrapped needs two lists of equal length");
    for (std::size_t i = 0; i < modules.size(); ++i)
        recording().tree.wrapped.push_back({idOf<ModuleId>(modules[i]), tensors[i]});
}

void leaf(const at::Tensor& tensor, std::int64_t category)
{
    recording().tree.leaves.push_back({tensor, static_cast<Category>(category)});
}

void inputs(at::TensorList tensors)
{
    for (const at::Tensor& tensor : tensors)
        if (recording().recorder)
            recording().recorder->addInput(tensor);
}

void retype(at::TensorList tensors, std::int64_t category)
{
    TORCH_CHECK(category >= 0 && category < static_cast<std::int64_t>(categoryCount), "no category ", category);
    const auto active = StepRecording::active();
    for (const at::Tensor& tensor : tensors) {
        if (active)
            active->retype(tensor, static_cast<Category>(category));
        else if (recording().recorder && !recording().begun)
            recording().recorder->addState(tensor, static_cast<Category>(category));
    }
}

void parametersMade(at::TensorList parameters)
{
    if (const auto active = StepRecording::active())
        for (const at::Tensor& parameter : parameters)
            active->parameterIsMade(parameter);
}

void unsharded(std::int64_t unit, const std::vector<std::string>& names, at::TensorList tensors, std::int64_t category)
{
    TORCH_CHECK(names.size() == tensors.size(), "torch_headroom.unsharded needs two lists of equal length");
    retype(tensors, category);
    if (const auto active = StepRecording::active())
        for (std::size_t i = 0; i < names.size(); ++i)
            active->addRegistered(idOf<ModuleId>(unit), names[i], tensors[i], static_cast<Category>(category));
}

void optimizerState(at::TensorList tensors)
{
    Recording& running = recording();
    if (running.begun)
        running.optimizerState.assign(tensors.begin(), tensors.end());
    else if (running.recorder)
        for (const at::Tensor& tensor : tensors)
            running.recorder->addState(tensor);
}

std::int64_t enter(std::int64_t module, at::TensorList arguments)
{
    const CallId call = Recorder::enter(idOf<ModuleId>(module), arguments);
    return call.valid() ? static_cast<std::int64_t>(call.value) : -1;
}

void held(std::int64_t call, at::TensorList tensors, at::IntArrayRef places)
{
    TORCH_CHECK(tensors.size() == places.size(), "torch_headroom.held needs two lists of equal length");
    Recorder::addHeld(idOf<CallId>(call), tensors, places);
}

void notHeld(std::int64_t call, at::IntArrayRef places)
{
    Recorder::removeHeld(idOf<CallId>(call), places);
}

void leave(std::int64_t call, at::TensorList results)
{
    Recorder::exit(idOf<CallId>(call), results);
}

void origin(std::optional<std::string_view> path)
{
    Recorder::setOrigin(path.value_or(""), path.has_value());
}

TORCH_LIBRARY(torch_headroom, library)
{
    library.def("registered(int[] modules, str[] names, Tensor[] tensors, bool[] buffers) -> ()");
    library.def("wrapped(int[] modules, Tensor[] tensors) -> ()");
    library.def("leaf(Tensor tensor, int category) -> ()");
    library.def("inputs(Tensor[] tensors) -> ()");
    library.def("retype(Tensor[] tensors, int category) -> ()");
    library.def("retype_parts(Tensor tensor, int category) -> ()"); // implemented in Python
    library.def("parameters_made(Tensor[] parameters) -> ()");
    library.def("unsharded(int unit, str[] names, Tensor[] tensors, int category) -> ()");
    library.def("optimizer_state(Tensor[] tensors) -> ()");
    library.def("enter(int module, Tensor[] arguments) -> int");
    library.def("held(int call, Tensor[] tensors, int[] places) -> ()");
    library.def("not_held(int call, int[] places) -> ()");
    library.def("leave(int call, Tensor[] results) -> ()");
    library.def("origin(str? path) -> ()");
}

void implement(torch::Library& library)
{
    library.impl("registered", &registered);
    library.impl("wrapped", &wrapped);
    library.impl("leaf", &leaf);
    library.impl("inputs", &inputs);
    library.impl("retype", &retype);
    library.impl("parameters_made", &parametersMade);
    library.impl("unsharded", &unsharded);
    library.impl("optimizer_state", &optimizerState);
    library.impl("enter", &enter);
    library.impl("held", &held);
    library.impl("not_held", &notHeld);
    library.impl("leave", &leave);
    library.impl("origin", &origin);
}

// Registered above autograd, so that arguments keep their autograd history, and at the keys that a call without tensors
// reaches first: the recorder's own, or the key of the program's dispatch modes, as from torch 2.15 on.
TORCH_LIBRARY_IMPL(torch_headroom, CompositeImplicitAutograd, library)
{
    implement(library);
}
TORCH_LIBRARY_IMPL(torch_headroom, Fake, library)
{
    implement(library);
}
TORCH_LIBRARY_IMPL(torch_headroom, Python, library)
{
    implement(library);
}

} // namespace
} // namespace headroom::python

using namespace headroom;

int headroom_measure(int device)
{
    return python::guarded([&] { return python::measureOn(device); });
}

void headroom_recording_watch()
{
    python::watch();
}

int headroom_recording_new()
{
    return python::guarded(python::create);
}

void headroom_recording_module(const char* fqn, const char* type, std::int64_t parent)
{
    python::recording().tree.modules.push_back({fqn, type, python::idOf<ModuleId>(parent)});
}

int headroom_recording_begin()
{
    return python::guarded(python::begin);
}

void headroom_recording_at(int instant)
{
    python::at(instant);
}

int headroom_recording_finish(const char* info)
{
    return python::guarded([&] { return python::finish(info); });
}

void headroom_recording_discard()
{
    python::recording().stop();
}

void headroom_recording_end_tracing()
{
    if (python::recording().real)
        python::recording().real->stopTracing();
}

int headroom_recording_add_setting(const char* name, const char* value)
{
    return python::guarded([&] { return python::addSetting(name, value); });
}

int headroom_recording_add_evaluation()
{
    return python::guarded(python::addEvaluation);
}

int headroom_recording_write(const char* path)
{
    return python::guarded([&] { return python::write(path); });
}

const char* headroom_recording_summary()
{
    return python::guardedText(python::summary);
}

const char* headroom_recording_text(const char* summary)
{
    return python::guardedText([&]() -> Result<std::string> {
        ASSIGN_OR_RETURN(const json::Json document, json::parse(summary, "the summary"));
        return recordText(document);
    });
}
