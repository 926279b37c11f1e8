// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// Returns whether the step has frames of source code.
inline bool hasSourceLines(const StepTrace& step)
{
    return step.frames.size() > 0;
}

/// Returns the innermost frame of an op. A backward op without a frame has the frame of the forward op. Invalid: not
/// known.
FrameId frameOf(const StepTrace& step, OpId op);

/// Returns the innermost frame that allocated a storage: the frame of the op, or the storage's own. Invalid: not known.
FrameId frameOf(const StepTrace& step, StorageId storage);

/// Returns whether a source file belongs to an installed library or to Python. `file`: the path in a frame.
bool isLibraryFile(std::string_view file);

/// The lines of a step's source code that people look for: in the user's own files first, and in a library of models,
/// such as transformers, where the library's code runs the op. Frames of PyTorch and of Python are left out if there is
/// another frame. The step must outlive the object. The constructor reads all frames once.
class SourceLines
{
public:
    /// A line, with or without the frame of a library that the line called.
    struct Line
    {
        FrameId own; ///< innermost frame of the user's own files; invalid: none
        FrameId library; ///< innermost frame of a library, called by `own`; invalid: none, or PyTorch only
        friend bool operator==(const Line&, const Line&) = default;

        FrameId innermost() const noexcept { return library.valid() ? library : own; }
        FrameId shown() const noexcept { return own.valid() ? own : library; } ///< that an editor opens
    };
    static constexpr std::uint32_t none = 0xffffffff;

    explicit SourceLines(const StepTrace& step);

    /// Returns the number of a frame's line: frames of the same files and lines have equal numbers. `none`: not known.
    std::uint32_t lineOf(FrameId frame) const { return frame.valid() ? numbers_[frame.value] : none; }
    std::uint32_t lineOf(OpId op) const { return lineOf(frameOf(step_, op)); }
    std::uint32_t lineOf(StorageId storage) const { return lineOf(frameOf(step_, storage)); }
    std::size_t size() const noexcept { return lines_.size(); }

    const Line& operator[](std::uint32_t line) const { return lines_[line]; }
    /// Returns a line as text: "model.py:57 Block.forward", or "train.py:42 > modeling_llama.py:289 LlamaMLP.forward".
    /// Control characters are replaced. Empty for `none`.
    std::string text(std::uint32_t line) const;
    std::string text(OpId op) const { return text(lineOf(op)); }
    std::string text(StorageId storage) const { return text(lineOf(storage)); }

private:
    const StepTrace& step_;
    std::vector<std::uint32_t> numbers_; ///< by frame
    std::vector<Line> lines_;
};

/// Returns the line of one frame, as SourceLines has the line, without reading all frames.
SourceLines::Line lineOf(const StepTrace& step, FrameId innermost);

/// Returns a line as text, as SourceLines::text(). Empty if the line has no frame.
std::string lineText(const StepTrace& step, const SourceLines::Line& line);

/// Returns a frame as text: "model.py:57 Block.forward", without control characters.
std::string frameText(const StepTrace& step, FrameId frame);

/// Returns, by ModuleId, the number of the line that allocates most of what forward makes in the module and in the
/// modules inside; SourceLines::none: not known.
std::vector<std::uint32_t> linesOfModules(const StepTrace& step, const SourceLines& lines);

/// Returns the frames of a stack, innermost first.
std::vector<FrameId> stackOf(const StepTrace& step, FrameId innermost);

} // namespace headroom
