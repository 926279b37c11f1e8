// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/source_lines.h"

#include "core/base/printable_text.h"

#include <boost/container_hash/hash.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <unordered_map>

namespace headroom {

namespace {

bool contains(std::string_view text, std::string_view part)
{
    return text.find(part) != std::string_view::npos;
}

/// Whether a file is PyTorch's or Python's, or no Python at all.
bool isBelowModels(std::string_view file)
{
    static constexpr std::array folders{"/torch/nn/",    "/torch/optim/", "/torch/autograd/", "/torch/utils/",
                                        "/torch/_",      "/torch/cuda/",  "/torch/amp/",      "/torch/distributed/",
                                        "/lib/python3.", "/torch/func"};
    if (contains(file, "-packages/"))
        return contains(file, "-packages/torch/");
    return file.starts_with('<') || !contains(file, ".py")
        || std::ranges::any_of(folders, [&](std::string_view folder) {
               return contains(file, folder)
                   || file.starts_with(folder.substr(1)); // exported programs may have no root
           });
}

enum class Level { own, model, below };

Level levelOf(std::string_view file)
{
    return isBelowModels(file) ? Level::below : isLibraryFile(file) ? Level::model : Level::own;
}

/// Adds a frame, of a file of this level, to the line of the frame's callers.
void extend(SourceLines::Line& line, FrameId frame, Level level)
{
    if (level == Level::own)
        line = {frame, {}};
    else if (level == Level::model)
        line.library = frame;
}

std::string_view baseName(std::string_view file)
{
    return file.substr(file.find_last_of('/') + 1);
}

std::string locationText(const StepTrace& step, FrameId frame)
{
    const std::uint32_t line = step.frames.line[frame];
    return printableText(baseName(step.strings[step.frames.file[frame]]))
        + (line > 0 ? ':' + std::to_string(line) : std::string());
}

} // namespace

bool isLibraryFile(std::string_view file)
{
    return contains(file, "-packages/") || isBelowModels(file);
}

FrameId frameOf(const StepTrace& step, OpId op)
{
    if (!op.valid() || step.ops.frame.size() == 0)
        return {};
    const FrameId own = step.ops.frame[op];
    const OpId forward = step.ops.forwardOp[op];
    return own.valid() || !forward.valid() ? own : step.ops.frame[forward];
}

FrameId frameOf(const StepTrace& step, StorageId storage)
{
    if (const OpId creator = step.storages.creator[storage]; creator.valid())
        return frameOf(step, creator);
    return step.storages.frame.size() > 0 ? step.storages.frame[storage] : FrameId();
}

SourceLines::SourceLines(const StepTrace& step)
    : step_(step)
{
    std::unordered_map<StringId, Level> levels;
    const auto levelOfFile = [&](StringId file) {
        const auto [entry, isNew] = levels.try_emplace(file);
        if (isNew)
            entry->second = levelOf(step.strings[file]);
        return entry->second;
    };
    using Location = std::tuple<StringId, std::uint32_t, StringId, std::uint32_t>;
    std::unordered_map<Location, std::uint32_t, boost::hash<Location>> known;
    std::vector<Line> found(step.frames.size()); // by frame
    numbers_.reserve(found.size());
    const auto location = [&](FrameId frame) {
        return frame.valid() ? std::pair(step.frames.file[frame], step.frames.line[frame])
                             : std::pair(StringId(), std::uint32_t());
    };
    for (std::uint32_t row = 0; row < found.size(); ++row) { // callers come first
        const FrameId frame(row);
        const FrameId caller = step.frames.caller[frame];
        Line line = caller.valid() ? found[caller.value] : Line();
        extend(line, frame, levelOfFile(step.frames.file[frame]));
        found[row] = line;
        if (!line.innermost().valid())
            line.library = frame; // PyTorch's own threads have no other frame
        const Location both = std::tuple_cat(location(line.own), location(line.library));
        const auto [entry, isNew] = known.try_emplace(both, static_cast<std::uint32_t>(lines_.size()));
        if (isNew)
            lines_.push_back(line);
        numbers_.push_back(entry->second);
    }
}

std::string SourceLines::text(std::uint32_t line) const
{
    return line == none ? std::string() : lineText(step_, lines_[line]);
}

SourceLines::Line lineOf(const StepTrace& step, FrameId innermost)
{
    SourceLines::Line line;
    const std::vector<FrameId> stack = stackOf(step, innermost);
    for (auto frame = stack.rbegin(); frame != stack.rend(); ++frame)
        extend(line, *frame, levelOf(step.strings[step.frames.file[*frame]]));
    if (!line.innermost().valid())
        line.library = innermost;
    return line;
}

std::string lineText(const StepTrace& step, const SourceLines::Line& line)
{
    if (!line.innermost().valid())
        return {};
    if (!line.own.valid() || !line.library.valid())
        return frameText(step, line.innermost());
    return locationText(step, line.own) + " > " + frameText(step, line.library);
}

std::string frameText(const StepTrace& step, FrameId frame)
{
    return locationText(step, frame) + ' ' + printableText(step.strings[step.frames.function[frame]]);
}

std::vector<std::uint32_t> linesOfModules(const StepTrace& step, const SourceLines& lines)
{
    std::vector<std::map<std::uint32_t, Bytes>> bytes(step.modules.size());
    for (std::uint32_t row = 0; row < step.storages.size(); ++row) {
        const StorageId storage(row);
        const OpId creator = step.storages.creator[storage];
        if (!creator.valid() || step.ops.phase[creator] != Phase::forward)
            continue;
        for (ModuleId module = step.ops.module[creator]; module.valid(); module = step.modules.parent[module])
            bytes[module.value][lines.lineOf(creator)] += step.storages.bytes[storage];
    }
    std::vector<std::uint32_t> most;
    for (const auto& byLine : bytes)
        most.push_back(byLine.empty() ? SourceLines::none : std::ranges::max_element(byLine, {}, [](const auto& entry) {
                                                                return entry.second;
                                                            })->first);
    return most;
}

std::vector<FrameId> stackOf(const StepTrace& step, FrameId innermost)
{
    std::vector<FrameId> stack;
    for (FrameId frame = innermost; frame.valid(); frame = step.frames.caller[frame])
        stack.push_back(frame);
    return stack;
}

} // namespace headroom
