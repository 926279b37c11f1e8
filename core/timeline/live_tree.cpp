// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/timeline/live_tree.h"

#include "core/base/printable_text.h"
#include "core/cost/op_signature.h"
#include "core/timeline/storage_owners.h"
#include "core/trace/source_lines.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>

namespace headroom {

namespace {

/// A node while the tree grows: children by level and id.
struct Growing
{
    LiveTree::Node node;
    CategoryBytes bytes{};
    std::map<std::pair<LiveTree::Level, std::uint32_t>, std::unique_ptr<Growing>> children;

    Growing& child(LiveTree::Level level, std::uint32_t id)
    {
        std::unique_ptr<Growing>& found = children[{level, id}];
        if (!found) {
            found = std::make_unique<Growing>();
            found->node.level = level;
            found->node.id = id;
        }
        return *found;
    }

    void add(const LiveBlock& block)
    {
        node.bytes += block.bytes;
        ++node.blocks;
        bytes[static_cast<std::size_t>(block.category)] += block.bytes;
    }
};

class TreeMaker
{
public:
    TreeMaker(const StepTrace& trace, LiveTree::By by)
        : trace_(trace)
        , by_(by)
        , owners_(trace)
        , lines_(trace)
    {
    }

    LiveTree make(std::vector<LiveBlock> blocks)
    {
        LiveTree tree;
        tree.hasLines = hasSourceLines(trace_);
        tree.blocks = std::move(blocks);
        Growing all;
        for (std::uint32_t i = 0; i < tree.blocks.size(); ++i)
            for (Growing* part : pathTo(all, tree.blocks[i], i))
                part->add(tree.blocks[i]);
        flatten(all, tree);
        return tree;
    }

private:
    using Level = LiveTree::Level;

    /// Returns the nodes from the root to a block.
    std::vector<Growing*> pathTo(Growing& all, const LiveBlock& block, std::uint32_t index)
    {
        std::vector<Growing*> path{&all};
        const auto enter = [&](Level level, std::uint32_t id) { path.push_back(&path.back()->child(level, id)); };
        const ModuleId module = owners_.module(block.storage);
        if (by_ == LiveTree::By::category || !module.valid())
            enter(Level::category, static_cast<std::uint32_t>(block.category));
        else
            for (const ModuleId part : withParents(module))
                enter(Level::module, part.value);
        if (const std::uint32_t line = lines_.lineOf(block.storage); line != SourceLines::none)
            enter(Level::line, line);
        enter(Level::block, index);
        return path;
    }

    /// Returns the modules from the root to `module`.
    std::vector<ModuleId> withParents(ModuleId module) const
    {
        std::vector<ModuleId> modules;
        for (; module.valid(); module = trace_.modules.parent[module])
            modules.insert(modules.begin(), module);
        return modules;
    }

    /// Writes a node's descendants level by level, so that children are neighbours.
    void flatten(Growing& all, LiveTree& tree) const
    {
        std::vector<Growing*> order{&all};
        all.node.name = "all";
        tree.nodes.push_back(finished(all));
        for (std::uint32_t at = 0; at < order.size(); ++at) {
            std::vector<Growing*> children;
            for (const auto& [key, child] : order[at]->children)
                children.push_back(child.get());
            std::ranges::stable_sort(children, std::ranges::greater(),
                                     [](const Growing* part) { return part->node.bytes; });
            tree.nodes[at].firstChild = static_cast<std::uint32_t>(tree.nodes.size());
            tree.nodes[at].children = static_cast<std::uint32_t>(children.size());
            for (Growing* child : children) {
                child->node.parent = at;
                child->node.name = nameOf(child->node, tree);
                tree.nodes.push_back(finished(*child));
                order.push_back(child);
            }
        }
    }

    static LiveTree::Node finished(const Growing& part)
    {
        LiveTree::Node node = part.node;
        node.category = static_cast<Category>(std::ranges::max_element(part.bytes) - part.bytes.begin());
        return node;
    }

    std::string nameOf(const LiveTree::Node& node, const LiveTree& tree) const
    {
        switch (node.level) {
        case Level::category:
            return std::string(categoryName(static_cast<Category>(node.id)));
        case Level::module: {
            const ModuleId module(node.id);
            const ModuleId parent = trace_.modules.parent[module];
            const std::string_view fqn = trace_.moduleFqn(module);
            const std::size_t above = parent.valid() ? trace_.moduleFqn(parent).size() + 1 : 0;
            return printableText(fqn.substr(std::min(above, fqn.size())));
        }
        case Level::line:
            return lines_.text(node.id);
        case Level::block:
            return blockText(trace_, owners_, tree.blocks[node.id]);
        case Level::all:
            break;
        }
        return node.name;
    }

    const StepTrace& trace_;
    const LiveTree::By by_;
    const StorageOwners owners_;
    const SourceLines lines_;
};

std::string shapeText(const TensorShape& shape)
{
    std::string text(dtypeName(shape.dtype));
    text += '[';
    for (std::size_t i = 0; i < shape.sizes.size(); ++i)
        text += (i > 0 ? ", " : "") + std::to_string(shape.sizes[i]);
    return text + ']';
}

/// Returns the shape of the result of an op that takes `bytes`; empty: not known.
std::string resultOfSize(const StepTrace& trace, OpId op, Bytes bytes)
{
    for (const OpSignature::Value& value : decodedSignature(trace.signatureOf(op)).results)
        for (const TensorShape& shape : value.tensors)
            if (bytesOf(shape) == bytes)
                return shapeText(shape);
    return {};
}

} // namespace

std::uint32_t LiveTree::levels() const
{
    std::uint32_t most = 0;
    std::vector<std::uint32_t> levels;
    for (const Node& node : nodes) { // parents come first
        levels.push_back(node.parent == none ? 1 : levels[node.parent] + 1);
        most = std::max(most, levels.back());
    }
    return most;
}

LiveTree liveTree(const StepTrace& trace, const Timeline& timeline, std::size_t count, LiveTree::By by)
{
    return liveTree(trace, liveBlocks(trace, timeline, count), by);
}

LiveTree liveTree(const StepTrace& trace, std::vector<LiveBlock> blocks, LiveTree::By by)
{
    return TreeMaker(trace, by).make(std::move(blocks));
}

std::vector<LineHolding> heldByLine(const SourceLines& lines, const std::vector<LiveBlock>& blocks)
{
    std::map<std::pair<std::uint32_t, Category>, LineHolding> holdings;
    for (const LiveBlock& block : blocks) {
        const std::uint32_t line = lines.lineOf(block.storage);
        LineHolding& holding = holdings[{line, block.category}];
        holding.line = line;
        holding.category = block.category;
        holding.bytes += block.bytes;
        ++holding.blocks;
    }
    std::vector<LineHolding> result;
    for (const auto& [key, holding] : holdings)
        result.push_back(holding);
    std::ranges::stable_sort(result, std::ranges::greater(), &LineHolding::bytes);
    return result;
}

std::vector<Lifetime> lifetimes(const Timeline& timeline, std::size_t count, const std::vector<LiveBlock>& blocks)
{
    struct Life : Lifetime
    {
        Bytes bytes = 0; ///< now
        double diedMs = -1; ///< the last time that the block had no bytes
    };
    std::vector<Life> lives(blocks.size());
    std::map<std::pair<StorageId, bool>, std::size_t> places;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        places.emplace(std::pair(blocks[i].storage, blocks[i].recomputed), i);
        lives[i].bytes = blocks[i].bytes;
    }
    const auto lifeOf = [&](const MemoryChange& change) {
        const auto place = places.find({change.storage, change.recomputed});
        return place == places.end() ? nullptr : &lives[place->second];
    };
    for (const MemoryChange& change : std::span(timeline.changes).first(count))
        if (Life* life = lifeOf(change))
            life->bytes -= change.delta; // back to the bytes at the start
    for (Life& life : lives) {
        life.fromBefore = life.bytes > 0;
        life.endMs = timeline.durationMs;
        life.outlives = true;
    }
    for (std::size_t at = 0; at < timeline.changes.size(); ++at) {
        const MemoryChange& change = timeline.changes[at];
        Life* life = lifeOf(change);
        if (!life)
            continue;
        const bool wasAlive = life->bytes > 0 || life->diedMs == change.ms; // a new category or size is two changes
        life->bytes += change.delta;
        if (life->bytes == 0)
            life->diedMs = change.ms;
        if (at < count && !wasAlive) {
            life->beginMs = change.ms;
            life->fromBefore = false;
        } else if (at >= count && life->bytes == 0 && life->outlives) {
            life->endMs = change.ms;
            life->outlives = false;
        } else if (at >= count && life->bytes > 0 && wasAlive && life->endMs == change.ms) {
            life->endMs = timeline.durationMs;
            life->outlives = true;
        }
    }
    return {lives.begin(), lives.end()};
}

std::string blockText(const StepTrace& trace, const StorageOwners& owners, const LiveBlock& block)
{
    if (const std::uint32_t row = owners.registeredRow(block.storage); row != StorageOwners::none)
        return printableText(trace.strings[trace.registered.name[row]]);
    if (!block.creator.valid())
        return "from before the step";
    std::string text = printableText(trace.opName(block.creator));
    if (block.recomputed)
        text += ", recomputed";
    const std::string shape = resultOfSize(trace, block.creator, trace.storages.requested[block.storage]);
    return shape.empty() ? text : text + ' ' + shape;
}

std::string foldedStacks(const LiveTree& tree)
{
    std::string text;
    std::vector<std::string> stacks(tree.nodes.size());
    for (std::size_t i = 1; i < tree.nodes.size(); ++i) { // parents come first
        const LiveTree::Node& node = tree.nodes[i];
        std::string name = node.name;
        std::ranges::replace(name, ';', ',');
        stacks[i] = node.parent == 0 ? name : stacks[node.parent] + ';' + name;
        if (node.children == 0)
            text += stacks[i] + ' ' + std::to_string(node.bytes) + '\n';
    }
    return text;
}

} // namespace headroom
