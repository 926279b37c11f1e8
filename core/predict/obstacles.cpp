// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/obstacles.h"

#include "core/predict/regions.h"
#include "core/predict/step_index.h"

#include <algorithm>

namespace headroom {

namespace {

class ObstacleFinder
{
public:
    ObstacleFinder(const StepTrace& trace, const StepIndex& index)
        : trace_(trace)
        , index_(index)
        , changes_(trace.storages.size())
        , begin_(trace.storages.size(), 0)
    {
        for (std::uint32_t event = 0; event < trace.events.size(); ++event) {
            const std::uint32_t a = trace.events.a[EventIndex(event)];
            const EventKind kind = trace.events.kind[EventIndex(event)];
            if (kind == EventKind::alloc)
                begin_[a] = event;
            else if (kind == EventKind::opEnd)
                for (const StorageId storage : trace.ops.mutated[OpId(a)])
                    changes_[storage.value].push_back(event);
        }
    }

    CheckpointObstacle of(CallId id) const
    {
        const StepIndex::Call& call = index_.calls[id.value];
        if (call.firstPack == call.endPack) // without gradients: checkpoint() steps aside
            return CheckpointObstacle::none;
        const Region region = regionOf(index_, id);
        const auto isChanged = [&](StorageId storage) {
            const auto& changes = changes_[storage.value];
            const auto next = std::ranges::upper_bound(changes, region.enter);
            return next != changes.end() && *next < region.end;
        };
        if (std::ranges::any_of(trace_.calls.arguments[id], isChanged))
            return CheckpointObstacle::argumentChanged;
        for (std::uint32_t i = call.firstOp; i < call.endOp; ++i)
            for (const StorageId input : trace_.ops.inputs[OpId(i)])
                if (begin_[input.value] < region.enter && !changes(OpId(i), input) && isChanged(input))
                    return CheckpointObstacle::stateChanged;
        for (std::uint32_t event = call.enter; event < call.exit; ++event)
            if (trace_.events.kind[EventIndex(event)] == EventKind::unpack
                && trace_.events.a[EventIndex(event)] >= call.firstPack)
                return CheckpointObstacle::ownBackward;
        return CheckpointObstacle::none;
    }

private:
    bool changes(OpId op, StorageId storage) const
    {
        return std::ranges::find(trace_.ops.mutated[op], storage) != trace_.ops.mutated[op].end();
    }

    const StepTrace& trace_;
    const StepIndex& index_;
    std::vector<std::vector<std::uint32_t>> changes_; ///< by storage: events at which an op has changed it, ascending
    std::vector<std::uint32_t> begin_; ///< by storage: event of its allocation
};

} // namespace

std::string_view obstacleText(CheckpointObstacle obstacle)
{
    switch (obstacle) {
    case CheckpointObstacle::none:
        break;
    case CheckpointObstacle::argumentChanged:
        return "one of its arguments is changed in place, so that it cannot run again from it";
    case CheckpointObstacle::stateChanged:
        return "it reads a tensor that is changed in place before backward is over, so that it would not compute the "
               "same again";
    case CheckpointObstacle::ownBackward:
        return "a backward pass runs inside of its forward";
    }
    return "";
}

std::vector<CheckpointObstacle> checkpointObstacles(const StepTrace& trace, const StepIndex& index)
{
    const ObstacleFinder finder(trace, index);
    std::vector<CheckpointObstacle> obstacles(trace.modules.size(), CheckpointObstacle::none);
    for (std::size_t module = 0; module < obstacles.size(); ++module)
        for (const CallId call : index.callsOf[module])
            if (obstacles[module] == CheckpointObstacle::none)
                obstacles[module] = finder.of(call);
    return obstacles;
}

} // namespace headroom
