// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/source_frames.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <utility>

namespace headroom::sim {

namespace {

struct Frames
{
    std::mutex mutex;
    std::deque<SourceFrame> rows;
};

Frames& frames()
{
    static auto* const instance = new Frames; // never destroyed: threads may run after main()
    return *instance;
}

std::atomic<FrameId (*)()> finder{nullptr};
thread_local FrameId scopeFrame;
thread_local bool hasScope = false;

} // namespace

FrameId addFrame(SourceFrame frame)
{
    Frames& all = frames();
    const std::lock_guard lock(all.mutex);
    all.rows.push_back(std::move(frame));
    return FrameId(static_cast<std::uint32_t>(all.rows.size() - 1));
}

SourceFrame frameAt(FrameId frame)
{
    Frames& all = frames();
    const std::lock_guard lock(all.mutex);
    return all.rows[frame.value];
}

void setFrameFinder(FrameId (*function)())
{
    finder = function;
}

FrameId currentFrame()
{
    if (hasScope)
        return scopeFrame;
    const auto find = finder.load();
    return find ? find() : FrameId();
}

FrameScope::FrameScope(FrameId frame)
    : outerFrame_(std::exchange(scopeFrame, frame))
    , hadOuter_(std::exchange(hasScope, true))
{
}

FrameScope::~FrameScope()
{
    scopeFrame = outerFrame_;
    hasScope = hadOuter_;
}

} // namespace headroom::sim
