// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/storage_owners.h"
#include "core/trace/source_lines.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace headroom {

/// The memory that a step holds at an instant as a tree: of categories or modules, then of lines of source code, then
/// of blocks. An icicle draws the tree; a profiler reads the tree as folded stacks. Immutable.
struct LiveTree
{
    enum class By { category, module };
    enum class Level : std::uint8_t { all, category, module, line, block };

    struct Node
    {
        std::string name; ///< printable: without control characters
        Level level = Level::all;
        Category category = Category::other; ///< the category with the most bytes in the node
        /// Category of the category; ModuleId, or `none` for memory of no module; line of SourceLines, or `none`; index
        /// of LiveTree::blocks.
        std::uint32_t id = 0;
        Bytes bytes = 0;
        std::uint32_t blocks = 0; ///< number
        std::uint32_t parent = none;
        std::uint32_t firstChild = 0; ///< the children are neighbours, largest first
        std::uint32_t children = 0; ///< number
    };
    static constexpr std::uint32_t none = 0xffffffff;

    std::vector<Node> nodes; ///< the first is the root, `all`; parents come first
    std::vector<LiveBlock> blocks; ///< as given
    bool hasLines = false; ///< the step has source lines

    const Node& root() const { return nodes.front(); }
    std::uint32_t levels() const; ///< number of levels, the root's included
};

using LiveTreePtr = std::shared_ptr<const LiveTree>;

/// Builds the tree of what is alive after the first `count` changes of the timeline.
LiveTree liveTree(const StepTrace& trace, const Timeline& timeline, std::size_t count, LiveTree::By by);
/// Builds the tree of these blocks.
LiveTree liveTree(const StepTrace& trace, std::vector<LiveBlock> blocks, LiveTree::By by);

/// Memory of one category that a line of source code has allocated.
struct LineHolding
{
    std::uint32_t line = SourceLines::none; ///< `none`: not known
    Category category = Category::other;
    Bytes bytes = 0;
    std::int64_t blocks = 0; ///< number of blocks
};
/// Returns the holdings of all lines, largest first. `lines` is of the step of the blocks.
std::vector<LineHolding> heldByLine(const SourceLines& lines, const std::vector<LiveBlock>& blocks);

/// The time that a block of LiveTree::blocks is alive, in ms of the timeline.
struct Lifetime
{
    double beginMs = 0; ///< 0: before the step
    double endMs = 0; ///< the timeline's end: the block outlives the step
    bool fromBefore = false;
    bool outlives = false;
};
/// Returns the lifetimes of the blocks that are alive after the first `count` changes, in the order of `blocks`.
std::vector<Lifetime> lifetimes(const Timeline& timeline, std::size_t count, const std::vector<LiveBlock>& blocks);

/// Returns a block as text: "aten.mm.default float32[512, 1024]", with dtype and shape where the step has them; the
/// name of a parameter or buffer; "from before the step" otherwise. Without control characters.
std::string blockText(const StepTrace& trace, const StorageOwners& owners, const LiveBlock& block);

/// Returns the tree as folded stacks, a line for each leaf: names from the root's children on, separated by semicolons,
/// a blank and the bytes. Names have no semicolons and no line breaks.
std::string foldedStacks(const LiveTree& tree);

} // namespace headroom
