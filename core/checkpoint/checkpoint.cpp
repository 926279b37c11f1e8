// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/checkpoint.h"

#include "core/checkpoint/checkpoint_frame.h"

#include <ATen/core/grad_mode.h>

namespace headroom {

CheckpointScope::CheckpointScope(RegionFunction recompute, const Values& inputs, const CheckpointOptions& options)
{
    if (!at::GradMode::is_enabled())
        return;
    frame_ = std::make_shared<CheckpointFrame>(std::move(recompute), inputs, options);
    if (options.save) {
        caching_.emplace(options.save, options.counted, frame_->cache());
        interposition_.emplace(*caching_);
    }
    hooks_.emplace([frame = frame_] { return frame->saveInForward(); });
}

CheckpointScope::~CheckpointScope() = default;

void CheckpointScope::complete()
{
    if (!frame_)
        return;
    hooks_.reset();
    interposition_.reset();
}

std::size_t CheckpointScope::savedTensors() const
{
    return frame_ ? frame_->savedTensors() : 0;
}

OpCounts CheckpointScope::opCounts() const
{
    return caching_ ? frame_->cache()->counts() : OpCounts();
}

} // namespace headroom
