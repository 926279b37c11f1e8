// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/compare/op_pairs.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <unordered_map>

namespace headroom {

namespace {

using Key = std::uint32_t;

/// The parts of an op's name and place that paired ops have in common.
struct PairBy
{
    bool overload = true;
    bool module = true;
};

/// Returns the name that an op of cuDNN or MIOpen has on other devices; other names are returned as they are.
std::string_view commonName(std::string_view op)
{
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> names{
        {{"aten.cudnn_batch_norm", "aten.native_batch_norm"},
         {"aten.miopen_batch_norm", "aten.native_batch_norm"},
         {"aten.cudnn_batch_norm_backward", "aten.native_batch_norm_backward"},
         {"aten.miopen_batch_norm_backward", "aten.native_batch_norm_backward"},
         {"aten.cudnn_convolution_backward", "aten.convolution_backward"}, // torch 1.9
         {"aten.miopen_convolution_backward", "aten.convolution_backward"}}};
    const auto found = std::ranges::find(names, op, &std::pair<std::string_view, std::string_view>::first);
    return found == names.end() ? op : found->second;
}

/// "aten.add.Tensor" → "aten.add": names in a profiler's trace have no overload.
std::string_view withoutOverload(std::string_view op)
{
    const std::size_t packet = op.find('.');
    return packet == std::string_view::npos ? op : op.substr(0, op.find('.', packet + 1));
}

/// Numbers ops: ops that can be paired have equal numbers.
class Keys
{
public:
    explicit Keys(PairBy by)
        : by_(by)
    {
    }

    std::vector<Key> of(const StepTrace& step)
    {
        std::vector<Key> keys;
        keys.reserve(step.ops.size());
        for (std::uint32_t i = 0; i < step.ops.size(); ++i) {
            const OpId op(i);
            std::string text(by_.overload ? step.opName(op) : commonName(withoutOverload(step.opName(op))));
            text += '\n';
            if (const ModuleId module = step.ops.module[op]; module && by_.module)
                text += belowRoot(step.moduleFqn(module));
            text += '\n';
            text += phaseName(step.ops.phase[op]);
            keys.push_back(known_.try_emplace(std::move(text), static_cast<Key>(known_.size())).first->second);
        }
        return keys;
    }

private:
    PairBy by_;
    std::unordered_map<std::string, Key> known_;
};

/// Finds the longest common subsequence by Myers' O((N + M) D) algorithm. D is the number of elements not in both.
class LongestCommon
{
public:
    /// Limit of D: sequences with more differences are of different steps.
    static constexpr int mostDifferences = 4000;

    LongestCommon(std::span<const Key> first, std::span<const Key> second)
        : first_(first)
        , second_(second)
    {
    }

    /// Calls pair(i, j) from the last pair to the first. There are none if the sequences differ too much.
    template <class Pair>
    void visit(Pair pair)
    {
        int d = search();
        if (d < 0)
            return;
        int x = static_cast<int>(first_.size());
        int y = static_cast<int>(second_.size());
        for (; d > 0; --d) {
            const int k = x - y;
            const bool down = goesDown(d, k);
            const int fromX = at(d - 1, down ? k + 1 : k - 1);
            const int startX = down ? fromX : fromX + 1;
            while (x > startX)
                pair(static_cast<std::size_t>(--x), static_cast<std::size_t>(--y));
            --(down ? y : x);
        }
        while (x > 0)
            pair(static_cast<std::size_t>(--x), static_cast<std::size_t>(--y));
    }

private:
    /// Returns the furthest x on diagonal k = x - y after d differences.
    int at(int d, int k) const { return reached_[static_cast<std::size_t>(d)][static_cast<std::size_t>(k + d)]; }

    /// Whether the furthest path with d differences reaches diagonal k by an element of the second sequence alone.
    bool goesDown(int d, int k) const { return k == -d || (k != d && at(d - 1, k - 1) < at(d - 1, k + 1)); }

    int follow(int x, int k) const
    {
        while (x < static_cast<int>(first_.size()) && x - k < static_cast<int>(second_.size())
               && first_[static_cast<std::size_t>(x)] == second_[static_cast<std::size_t>(x - k)])
            ++x;
        return x;
    }

    /// Returns the number of differences; -1: too many.
    int search()
    {
        const int n = static_cast<int>(first_.size());
        const int m = static_cast<int>(second_.size());
        for (int d = 0; d <= std::min(n + m, mostDifferences); ++d) {
            reached_.emplace_back(2 * static_cast<std::size_t>(d) + 1);
            for (int k = -d; k <= d; k += 2) {
                const int start = d == 0 ? 0 : goesDown(d, k) ? at(d - 1, k + 1) : at(d - 1, k - 1) + 1;
                const int x = follow(start, k);
                reached_.back()[static_cast<std::size_t>(k + d)] = x;
                if (x >= n && x - k >= m)
                    return d;
            }
        }
        return -1;
    }

    std::span<const Key> first_;
    std::span<const Key> second_;
    std::vector<std::vector<int>> reached_;
};

} // namespace

std::string_view belowRoot(std::string_view fqn)
{
    const std::size_t dot = fqn.find('.');
    return dot == std::string_view::npos ? std::string_view() : fqn.substr(dot + 1);
}

bool sharesModules(const StepTrace& first, const StepTrace& second)
{
    std::set<std::string_view> names;
    for (std::uint32_t i = 0; i < first.modules.size(); ++i)
        names.insert(belowRoot(first.moduleFqn(ModuleId(i))));
    names.erase(std::string_view());
    for (std::uint32_t i = 0; i < second.modules.size(); ++i)
        if (names.contains(belowRoot(second.moduleFqn(ModuleId(i)))))
            return true;
    return names.empty();
}

OpPairs pairOps(const StepTrace& first, const StepTrace& second)
{
    const bool isProfile = second.info.source == "profile";
    Keys keys(isProfile ? PairBy{false, sharesModules(first, second)} : PairBy());
    const std::vector<Key> a = keys.of(first);
    const std::vector<Key> b = keys.of(second);
    OpPairs pairs;
    pairs.second.assign(a.size(), OpId());
    const auto pair = [&](std::size_t i, std::size_t j) {
        pairs.second[i] = OpId(static_cast<std::uint32_t>(j));
        ++pairs.count;
    };
    // Equal ops at both ends need no search.
    const std::size_t shorter = std::min(a.size(), b.size());
    std::size_t begin = 0;
    while (begin < shorter && a[begin] == b[begin])
        ++begin;
    std::size_t end = 0;
    while (end < shorter - begin && a[a.size() - 1 - end] == b[b.size() - 1 - end])
        ++end;
    for (std::size_t i = 0; i < begin; ++i)
        pair(i, i);
    for (std::size_t i = 1; i <= end; ++i)
        pair(a.size() - i, b.size() - i);
    const auto middle
        = [&](const std::vector<Key>& all) { return std::span(all).subspan(begin, all.size() - begin - end); };
    LongestCommon(middle(a), middle(b)).visit([&](std::size_t i, std::size_t j) { pair(begin + i, begin + j); });
    return pairs;
}

} // namespace headroom
