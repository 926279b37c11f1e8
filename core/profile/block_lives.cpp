// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/profile/block_lives.h"

#include "core/trace/life_category.h"

#include <algorithm>

namespace headroom {

namespace {

constexpr std::size_t npos = SIZE_MAX;

} // namespace

BlockLives::BlockLives(const Profile& profile, const ProfileWindow& window, const ProfiledStep& step, int device)
{
    Bytes known = 0;
    for (const Profile::Block& block : profile.blocks) {
        if (block.device != device || block.bytes == 0)
            continue;
        if (block.at < window.begin)
            known += block.bytes;
        else if (block.at < window.end)
            blocks_.push_back(block);
    }
    std::ranges::stable_sort(blocks_, {}, &Profile::Block::at);
    if (blocks_.empty())
        return;
    knowsStart_ = blocks_.front().allocated >= 0;
    Bytes now = knowsStart_ ? blocks_.front().allocated - blocks_.front().bytes : std::max<Bytes>(0, known);
    rest_ = now;
    for (const Profile::Block& block : blocks_) {
        now = block.allocated >= 0 ? block.allocated : now + block.bytes;
        allocatedPeak_ = std::max(allocatedPeak_, now);
        reservedPeak_ = std::max(reservedPeak_, block.reserved);
    }
    look(step);
}

/// Returns the address of a block; if it is unknown, a key from its size.
std::uint64_t BlockLives::key(const Profile::Block& block)
{
    return block.address != 0 ? block.address
                              : (std::uint64_t{1} << 63) + static_cast<std::uint64_t>(std::abs(block.bytes));
}

void BlockLives::look(const ProfiledStep& step)
{
    std::unordered_map<std::uint64_t, std::vector<std::size_t>> live;
    std::vector<Life> before;
    std::vector<std::size_t> beforeAt;
    lifeOf_.assign(blocks_.size(), npos);
    std::size_t op = 0;
    std::uint32_t changes = 0;
    Phase phase = step.ops.empty() ? Phase::forward : step.ops.front().phase;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        const Profile::Block& block = blocks_[i];
        for (; op < step.ops.size() && step.ops[op].span->begin <= block.at; ++op) {
            changes += step.ops[op].phase != phase ? 1 : 0;
            phase = step.ops[op].phase;
        }
        std::vector<std::size_t>& there = live[key(block)];
        if (block.bytes > 0) {
            there.push_back(lives_.size());
            lifeOf_[i] = lives_.size();
            lives_.push_back({block.bytes, phase, changes, false, false, {}});
        } else if (!there.empty()) {
            Life& life = lives_[there.back()];
            life.freed = true;
            life.freedSoon = life.madeIn == changes;
            lifeOf_[i] = there.back();
            there.pop_back();
        } else {
            before.push_back({-block.bytes, Phase::forward, 0, false, true, {}});
            beforeAt.push_back(i);
        }
    }
    for (std::size_t i = 0; i < before.size(); ++i) {
        rest_ -= before[i].bytes;
        lifeOf_[beforeAt[i]] = lives_.size() + i;
    }
    before_ = lives_.size();
    lives_.insert(lives_.end(), before.begin(), before.end());
}

void BlockLives::start(StepTraceBuilder& builder)
{
    if (rest_ > 0)
        builder.alloc(rest_, Category::other, OpId());
    for (std::size_t i = before_; i < lives_.size(); ++i)
        lives_[i].storage = builder.alloc(lives_[i].bytes, Category::other, OpId());
}

void BlockLives::playUntil(Profile::Nanoseconds end, StepTraceBuilder& builder, OpId op)
{
    for (; next_ < blocks_.size() && blocks_[next_].at < end; ++next_) {
        const Profile::Block& block = blocks_[next_];
        Life& life = lives_[lifeOf_[next_]];
        if (block.reserved >= 0)
            builder.setReserved(block.reserved);
        if (block.bytes > 0)
            life.storage = builder.alloc(life.bytes, lifeCategory(life.made, life.freedSoon, life.freed), op);
        else
            builder.free(life.storage);
    }
}

} // namespace headroom
