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
        || std::ranges::any_of(folders, [&](const char* folder) { return contains(file, folder); });
}

std::string_view baseName(std::string_view file)
{
    return file.substr(file.find_last_of('/') + 1);
}

std::string placeText(const StepTrace& step, FrameId frame)
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
    enum class Level { own, model, below };
    std::unordered_map<StringId, Level> levels;
    const auto levelOf = [&](StringId file) {
        const auto [entry, isNew] = levels.try_emplace(file);
        if (isNew) {
            const std::string_view name = step.strings[file];
            entry->second = isBelowModels(name) ? Level::below : isLibraryFile(name) ? Level::model : Level::own;
        }
        return entry->second;
    };
    using Place = std::tuple<StringId, std::uint32_t, StringId, std::uint32_t>;
    std::unordered_map<Place, std::uint32_t, boost::hash<Place>> known;
    std::vector<Line> found(step.frames.size()); // by frame
    numbers_.reserve(found.size());
    const auto place = [&](FrameId frame) {
        return frame.valid() ? std::pair(step.frames.file[frame], step.frames.line[frame])
                             : std::pair(StringId(), std::uint32_t());
    };
    for (std::uint32_t row = 0; row < found.size(); ++row) { // callers come first
        const FrameId frame(row);
        const FrameId caller = step.frames.caller[frame];
        Line line = caller.valid() ? found[caller.value] : Line();
        switch (levelOf(step.frames.file[frame])) {
        case Level::own:
            line = {frame, {}};
            break;
        case Level::model:
            line.library = frame;
            break;
        case Level::below:
            break;
        }
        found[row] = line;
        if (!line.innermost().valid())
            line.library = frame; // PyTorch's own threads have no other frame
        const Place both = std::tuple_cat(place(line.own), place(line.library));
        const auto [entry, isNew] = known.try_emplace(both, static_cast<std::uint32_t>(lines_.size()));
        if (isNew)
            lines_.push_back(line);
        numbers_.push_back(entry->second);
    }
}

std::string SourceLines::text(std::uint32_t line) const
{
    if (line == none)
        return {};
    const auto& [own, library] = lines_[line];
    if (!own.valid() || !library.valid())
        return frameText(step_, lines_[line].innermost());
    return placeText(step_, own) + " > " + frameText(step_, library);
}

std::string frameText(const StepTrace& step, FrameId frame)
{
    return placeText(step, frame) + ' ' + printableText(step.strings[step.frames.function[frame]]);
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
