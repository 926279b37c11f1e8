// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/record/interceptor.h"
#include "core/record/module_call.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headroom {

/// A checkpoint that cannot do what it was asked for, or a region that did not do the same twice: one sentence.
class CheckpointError : public ModuleCallError
{
public:
    using ModuleCallError::ModuleCallError;
};

/// Whether an op of a region keeps its results: by its name ("aten.mm.default") and by how many of that name ran before
/// it in the region. SAC_IGNORED_OPS are not asked for.
using SavePolicy = std::function<bool(std::string_view op, int index)>;

/// How often ops ran, by name.
using OpCounts = std::map<std::string, int, std::less<>>;

/// Names of ops and their facts, and how often each ran in one run of a region.
class RegionOps
{
public:
    struct Op
    {
        std::string name;
        bool ignored = false; ///< by selective checkpointing
        bool changesArgument = false;
        std::size_t returns = 0;
        int count = 0;
    };
    Op& of(const c10::OperatorHandle& op);
    OpCounts counts() const;

private:
    std::unordered_map<c10::OperatorHandle, Op> ops_;
};

/// The results of the ops that a region keeps, from its forward to its recomputation.
class SelectiveCache
{
public:
    void put(const std::string& op, int index, c10::ArrayRef<c10::IValue> results);
    /// Gives up its hold. Throws when the results are not there or were changed in place.
    Values take(const std::string& op, int index);

private:
    struct Entry
    {
        Values results; ///< without their autograd history
        std::vector<std::uint32_t> versions; ///< of the tensors among them, when they were put here
    };
    std::map<std::pair<std::string, int>, Entry> entries_;
    std::map<std::pair<std::string, int>, bool> taken_;
};

/// Runs the ops of a region's forward and caches the results of those that the policy keeps.
class CachingOps final : public OpInterposer
{
public:
    CachingOps(SavePolicy policy, std::shared_ptr<SelectiveCache> cache);
    void call(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run) override;
    OpCounts counts() const { return ops_.counts(); }

private:
    SavePolicy policy_;
    std::shared_ptr<SelectiveCache> cache_;
    RegionOps ops_;
};

/// In the recomputation: gives the cached results of the ops that the policy keeps, and runs the others.
class CachedOps final : public OpInterposer
{
public:
    CachedOps(SavePolicy policy, std::shared_ptr<SelectiveCache> cache);
    void call(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run) override;

private:
    SavePolicy policy_;
    std::shared_ptr<SelectiveCache> cache_;
    RegionOps ops_;
};

} // namespace headroom
