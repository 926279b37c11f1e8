// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/snapshot/snapshot.h"
#include "core/trace/step_trace.h"
#include "core/trace/step_trace_builder.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace headroom {

/// Facts about an allocation that follow from the frames of the stack.
struct StackMeaning
{
    std::string op; ///< "aten.addmm" with C++ frames, else "forward (model.py:54)"; empty: unknown
    std::string node; ///< autograd node that runs backward: "AddmmBackward0"
    std::optional<Phase> phase; ///< backward, optimizer, zeroGrad; forward inside a module's forward
    /// Names for the modules that run a forward on the stack, outermost first. PyTorch records neither class nor
    /// attribute name: a name consists of the file of the forward, and the line of the call in the enclosing forward.
    std::vector<std::string> modules;
    bool makesParameters = false; ///< inside of torch.nn.init, Module.to(), a constructor or a similar function
    bool empty = true;
};

/// Returns the meaning of a stack; `none` is the stack of an event without frames.
StackMeaning stackMeaning(const Snapshot& snapshot, Snapshot::Index stack);

/// The modules and regions of a snapshot as a tree. The tree grows while events are read; addTo() numbers depth first.
class RegionTree
{
public:
    using Node = std::uint32_t; ///< 0: the root

    RegionTree();
    Node child(Node parent, const std::string& name); ///< returns the child with this name, and adds it if needed
    /// Returns the node for a name that the program gave: "model.layers.0" has three levels, other texts have one.
    Node named(std::string_view name);

    /// Adds all nodes as modules. module() is valid afterwards.
    void addTo(StepTraceBuilder& builder);
    ModuleId module(Node node) const { return modules_[node]; }
    /// Returns the names of all nodes without the root's: "model.layers.0"; empty for the root.
    std::vector<std::string> paths() const;

private:
    struct Region
    {
        std::string name;
        std::map<std::string, Node> children; ///< by name
        std::vector<Node> order; ///< children in order of creation
    };
    void add(StepTraceBuilder& builder, Node node, const std::string& fqn, ModuleId parent);

    std::vector<Region> regions_;
    std::vector<ModuleId> modules_;
};

/// Tracks the annotations (torch.profiler.record_function) that are open at a time.
class Annotations
{
public:
    Annotations(const Snapshot& snapshot, std::size_t device);

    /// Advances to a time, which must not be before the last time.
    void advance(std::int64_t microseconds);
    /// Returns the phase of the innermost annotation that names a phase, such as "Optimizer.step#Adam.step".
    std::optional<Phase> phase() const;
    std::string_view innermost() const; ///< returns the innermost annotation that names no phase; empty: none

private:
    /// Begins of the open annotations of each name, the innermost last: indices of `all_`.
    using Begins = std::unordered_map<Snapshot::Index, std::vector<std::size_t>>;

    void open(Snapshot::Index name);
    void close(Begins::iterator name);

    const Snapshot& snapshot_;
    std::vector<Snapshot::Annotation> all_; ///< by time
    std::size_t next_ = 0;
    Begins begins_;
    std::map<std::size_t, Phase> phases_; ///< open annotations that name a phase, by begin
    std::map<std::size_t, Snapshot::Index> others_; ///< the other open annotations, by begin
};

/// Finds the phase and the region of each event from the stack, the program's metadata and the annotations.
class EventMeanings
{
public:
    EventMeanings(const Snapshot& snapshot, std::size_t device, bool hasStacks);

    struct Meaning
    {
        const StackMeaning* stack = nullptr;
        Phase phase = Phase::forward;
        RegionTree::Node region = 0;
    };
    /// Returns the meaning of the next event. Call this for each event in order.
    Meaning of(const Snapshot::Event& event);
    const StackMeaning& stack(Snapshot::Index stack);
    RegionTree& regions() { return regions_; }

private:
    RegionTree::Node regionOf(const Snapshot::Event& event, const StackMeaning& stack);

    const Snapshot& snapshot_;
    Annotations annotations_;
    bool hasStacks_;
    RegionTree regions_;
    std::unordered_map<Snapshot::Index, StackMeaning> stacks_;
    std::unordered_map<Snapshot::Index, RegionTree::Node> stackRegions_;
    std::unordered_map<Snapshot::Index, RegionTree::Node> namedRegions_;
    Phase last_ = Phase::forward;
};

} // namespace headroom
