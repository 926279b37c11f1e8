// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/remarks.h"

#include "core/base/bytes.h"
#include "core/trace/memory_event.h"

#include <map>
#include <string_view>
#include <utility>

namespace headroom {

namespace {

constexpr Bytes leastGrowth = MiB; ///< of a step that keeps activations, for a remark

/// The activations that are live.
class LiveActivations : public TimelessMemory
{
public:
    explicit LiveActivations(const StepTrace& step)
        : categories_(step.storages.category.begin(), step.storages.category.end())
        , found_(categories_.size(), false)
    {
        for (const Bytes bytes : step.storages.bytes)
            blocks_.push_back({bytes, 0});
    }

    void hold(std::uint32_t storage) { blocks_[storage].hold(); }
    void drop(std::uint32_t storage) { blocks_[storage].drop(); }
    void resize(std::uint32_t storage, Bytes bytes) { blocks_[storage].resize(bytes); }
    void retype(StorageId storage, Category category) { categories_[storage.value] = category; }
    void mark(Mark mark)
    {
        if (mark != Mark::stepBegin)
            return;
        for (std::uint32_t storage = 0; storage < blocks_.size(); ++storage)
            found_[storage] = live(storage) > 0;
        foundBytes_ = sum([](std::uint32_t) { return true; });
    }

    KeptActivations kept() const
    {
        const Bytes earlier = sum([this](std::uint32_t storage) { return found_[storage]; });
        return {earlier, sum([](std::uint32_t) { return true; }) - foundBytes_};
    }

private:
    Bytes live(std::uint32_t storage) const
    {
        return categories_[storage] == Category::activation ? blocks_[storage].live() : 0;
    }
    template <class Counts>
    Bytes sum(const Counts& counts) const
    {
        Bytes bytes = 0;
        for (std::uint32_t storage = 0; storage < blocks_.size(); ++storage)
            bytes += counts(storage) ? live(storage) : 0;
        return bytes;
    }

    std::vector<HeldBlock> blocks_; ///< by storage
    std::vector<Category> categories_;
    std::vector<bool> found_; ///< live when the step began
    Bytes foundBytes_ = 0;
};

} // namespace

KeptActivations keptActivations(const StepTrace& step)
{
    LiveActivations live(step);
    for (std::uint32_t event = 0; event < step.events.size(); ++event)
        applyRecordedEvent(live, step, event);
    return live.kept();
}

std::vector<FallbackOp> fallbackOps(const StepTrace& step)
{
    std::map<std::pair<std::string_view, std::string_view>, std::int64_t> counts;
    for (std::uint32_t row = 0; row < step.ops.size(); ++row)
        if (const OpId op(row); (step.ops.flags[op] & opFallback) != 0)
            ++counts[{step.opName(op), step.moduleFqn(step.ops.module[op])}];
    std::vector<FallbackOp> fallbacks;
    for (const auto& [where, count] : counts)
        fallbacks.push_back({std::string(where.first), std::string(where.second), count});
    return fallbacks;
}

std::vector<std::string> remarks(const StepTrace& step)
{
    std::vector<std::string> sentences = step.info.remarks;
    for (const FallbackOp& fallback : fallbackOps(step))
        sentences.push_back(fallback.op + " in " + (fallback.module.empty() ? "no module" : fallback.module)
                            + " has no kernel on the simulated GPU and ran " + std::to_string(fallback.count)
                            + " times on zeros to learn its shapes");
    const KeptActivations kept = keptActivations(step);
    if (step.info.source.empty() && kept.more >= leastGrowth && kept.earlier >= kept.more / 2)
        sentences.push_back("the program keeps " + formatBytes(kept.earlier)
                            + " of activations of earlier steps, and this "
                              "step adds "
                            + formatBytes(kept.more)
                            + ": every step takes more than the one before, and the "
                              "peak is of this one only. A loss or an output that is kept holds its graph: keep "
                              "loss.item() or output.detach()");
    return sentences;
}

} // namespace headroom
