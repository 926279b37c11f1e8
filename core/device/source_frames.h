// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/ids.h"

#include <cstdint>
#include <string>

/// The frames of source code that run ops and allocate memory, of the whole process: frames are never removed, so that
/// a block may outlive the step that allocated the block. Thread-safe.
namespace headroom::sim {

/// A function that runs at a line.
struct SourceFrame
{
    FrameId caller; ///< invalid: the outermost frame
    std::string file;
    std::string function;
    std::uint32_t line = 0; ///< from 1; 0: not known

    friend bool operator==(const SourceFrame&, const SourceFrame&) = default;
};

/// Returns the number of a new frame. The caller adds a frame once: equal frames get other numbers.
FrameId addFrame(SourceFrame frame);
SourceFrame frameAt(FrameId frame); ///< `frame` is valid

/// Sets the function that returns the innermost frame of the calling thread (invalid: none); null: there are no frames.
void setFrameFinder(FrameId (*finder)());

/// Returns the innermost frame of the calling thread: of the innermost FrameScope, else the finder's.
FrameId currentFrame();

/// Sets the frame of this thread, valid or not, while the scope exists.
class FrameScope
{
public:
    explicit FrameScope(FrameId frame);
    ~FrameScope();
    FrameScope(const FrameScope&) = delete;
    FrameScope& operator=(const FrameScope&) = delete;

private:
    FrameId outerFrame_;
    bool hadOuter_;
};

} // namespace headroom::sim
