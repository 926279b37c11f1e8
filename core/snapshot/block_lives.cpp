// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/snapshot/block_lives.h"

#include "core/trace/life_category.h"

#include <algorithm>
#include <span>
#include <unordered_map>

namespace headroom {

using Action = Snapshot::Action;

SnapshotLives::SnapshotLives(const Snapshot& snapshot, const DeviceHistory& history, std::size_t device)
    : meanings_(snapshot, device, std::ranges::any_of(history.events, [](const Snapshot::Event& event) {
                    return event.stack != Snapshot::none;
                }))
{
    find(history);
}

void SnapshotLives::find(const DeviceHistory& history)
{
    std::unordered_map<std::uint64_t, std::uint32_t> live;
    for (const auto& [address, block] : history.blocks) {
        live[address] = static_cast<std::uint32_t>(lives_.size());
        lives_.push_back({.stack = block.stack, .before = true});
    }
    phases_.reserve(history.events.size());
    regions_.reserve(history.events.size());
    std::uint32_t changes = 0;
    Phase last = Phase::forward;
    for (const Snapshot::Event& event : history.events) {
        const EventMeanings::Meaning meaning = meanings_.of(event);
        phases_.push_back(meaning.phase);
        regions_.push_back(meaning.region);
        changes += meaning.phase != last ? 1 : 0;
        last = meaning.phase;
        if (event.action == Action::freeCompleted || event.action == Action::alloc) {
            if (const auto found = live.find(event.address); found != live.end()) {
                lives_[found->second].freedIn = changes;
                live.erase(found);
            }
        }
        if (event.action == Action::alloc && event.size > 0) {
            live[event.address] = static_cast<std::uint32_t>(lives_.size());
            lives_.push_back({.stack = event.stack, .made = meaning.phase, .madeIn = changes});
        }
    }
}

Category SnapshotLives::category(const BlockLife& life)
{
    const StackMeaning& stack = meanings_.stack(life.stack);
    if (stack.makesParameters)
        return Category::parameter;
    if (life.before) {
        if (stack.empty || !stack.phase)
            return Category::other;
        switch (*stack.phase) {
        case Phase::optimizer:
            return Category::optimizer;
        case Phase::backward:
            return Category::gradient;
        default:
            return Category::activation;
        }
    }
    return lifeCategory(life.made, life.freedIn == life.madeIn, life.freedIn != BlockLife::neverFreed);
}

std::string_view allocatingOp(const StackMeaning& stack)
{
    return stack.op.empty() ? unnamedAllocation : std::string_view(stack.op);
}

FrameId SnapshotFrames::of(Snapshot::Index stack)
{
    if (stack == Snapshot::none)
        return {};
    const auto [entry, isNew] = known_.try_emplace(stack);
    if (isNew) {
        const std::span<const Snapshot::Index> rows = snapshot_.stack(stack); // innermost first
        for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
            const Snapshot::Frame& source = snapshot_.frames[*row];
            entry->second = builder_.frame(entry->second, snapshot_.text(source.file), snapshot_.text(source.function),
                                           static_cast<std::uint32_t>(std::max(source.line, 0)));
        }
    }
    return entry->second;
}

} // namespace headroom
