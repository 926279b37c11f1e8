// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/chain_labels.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>

namespace headroom {

namespace {

constexpr double nsPerLabel = 7; ///< of an option: the work of a search
constexpr std::size_t labelsOfOption = 10; ///< an option takes the work of as many labels

struct Label
{
    Bytes bytes = 0; ///< bytes that a beginning holds, or that a completion needs
    Picoseconds time = 0;
    ChainStep step;
    std::uint32_t next = 0; ///< index among the labels of the arc's other position
    std::uint32_t place = 0; ///< rank of the option in the arc, cheapest first
    double outside = 0; ///< loss of the part of the path outside of the middle run
};
using Labels = std::vector<Label>; ///< labels of a position: bytes ascending, time descending; none dominates another

/// Collects the labels of a position, option by option. Each option turns sorted labels into sorted labels, so that
/// lists are merged instead of sorted, lists of similar length first. Merging drops dominated labels.
class Front
{
public:
    void add(Labels labels)
    {
        if (labels.empty())
            return;
        parts_.push_back(std::move(labels));
        while (parts_.size() > 1 && parts_[parts_.size() - 2].size() <= 2 * parts_.back().size())
            mergeLast();
    }

    Labels take()
    {
        while (parts_.size() > 1)
            mergeLast();
        return parts_.empty() ? Labels() : std::move(parts_.back());
    }

private:
    void mergeLast()
    {
        const Labels last = std::move(parts_.back());
        parts_.pop_back();
        parts_.back() = merged(parts_.back(), last);
    }

    static Labels merged(const Labels& a, const Labels& b)
    {
        Labels all;
        all.reserve(a.size() + b.size());
        Picoseconds best = std::numeric_limits<Picoseconds>::max();
        for (auto x = a.begin(), y = b.begin(); x != a.end() || y != b.end();) {
            const bool first = y == b.end()
                || (x != a.end() && (x->bytes < y->bytes || (x->bytes == y->bytes && x->time <= y->time)));
            const Label& next = first ? *x++ : *y++;
            if (next.time >= best)
                continue;
            best = next.time;
            all.push_back(next);
        }
        return all;
    }

    std::vector<Labels> parts_;
};

} // namespace

/// A pass of the search, from both ends.
class ChainLabels::Search
{
public:
    Search(const ChainLabels& chain, std::size_t width, double mustBeat, const SearchLimit& limit)
        : chain_(chain)
        , problem_(*chain.problem_)
        , width_(width)
        , mustBeat_(mustBeat)
        , mostLoss_(mustBeat - chain.bound())
        , middle_(middleOf(chain))
        , limit_(limit)
        , front_(chain.price_.size())
        , back_(chain.price_.size())
    {
    }

    Pass run()
    {
        pass_.complete = true;
        front_.front() = {Label{}};
        back_.back() = {Label{problem_.atBoundary, 0, {}, 0, 0}};
        std::size_t from = 0;
        std::size_t to = at(problem_.positions);
        while (from + 1 < to) {
            if (middle_.arc >= 0 ? from < middle_.position : workTo(from + 1) <= workFrom(to - 1))
                goForward(++from);
            else
                goBack(--to);
            if (limit_.reached()) {
                pass_.complete = false;
                return pass_;
            }
        }
        meet(static_cast<int>(from));
        if (limit_.reached())
            pass_.complete = false;
        return pass_;
    }

private:
    /// The middle of a run, where front and back meet. The order of options within a run is free. So the option of most
    /// loss can be in the middle and the others can alternate between front and back: neither side has more than half
    /// of the loss.
    struct Middle
    {
        int run = -1; ///< the run's first position; -1: no run
        int arc = -1;
        std::size_t position = 0;
    };

    /// Finds the run that has more than half of the chain. With a shorter run, the front or the back would have much
    /// more work.
    static Middle middleOf(const ChainLabels& chain)
    {
        for (int arc = 0; arc < static_cast<int>(chain.problem_->arcs.size());) {
            const int first = chain.problem_->arcs[at(arc)].first;
            int end = arc + 1;
            while (end < static_cast<int>(chain.problem_->arcs.size())
                   && chain.sameRun(first, chain.problem_->arcs[at(end)].first))
                ++end;
            const int half = (end - arc) / 2;
            if (2 * (end - arc) > chain.problem_->positions && half > 0)
                return {first, arc + half, at(first + half)};
            arc = end;
        }
        return {};
    }

    bool isInMiddle(int position) const { return middle_.run >= 0 && chain_.sameRun(middle_.run, position); }

    /// The most loss of a label that ends with the arc. In the middle run the other side may have as much.
    double mostLoss(const ChainArc& arc, double outside) const
    {
        return isInMiddle(arc.first) ? (mostLoss_ + outside) / 2 : mostLoss_;
    }

    /// The loss of a label: a lower bound of the time of the label's paths, minus bound().
    double lossOfFront(const Label& label, std::size_t position) const
    {
        return static_cast<double>(label.time) + chain_.price_[position] * static_cast<double>(label.bytes)
            + chain_.rest_[position] - chain_.bound();
    }
    double lossOfBack(const Label& label, std::size_t position) const
    {
        return static_cast<double>(label.time)
            + chain_.price_[position] * static_cast<double>(label.bytes - chain_.budget_) + chain_.head_[position]
            - chain_.bound();
    }

    const ChainArc& arcOf(int arc) const { return problem_.arcs[at(arc)]; }

    std::span<const ChainArc> arcsFrom(std::size_t position) const
    {
        const auto arcs = std::ranges::equal_range(problem_.arcs, static_cast<int>(position), {}, &ChainArc::first);
        return {arcs.begin(), arcs.end()};
    }

    std::size_t workTo(std::size_t position) const
    {
        std::size_t work = 0;
        for (const int arc : chain_.arcsTo_[position])
            work += front_[at(arcOf(arc).first)].size() * arcOf(arc).options.size();
        return work;
    }

    std::size_t workFrom(std::size_t position) const
    {
        std::size_t work = 0;
        for (const ChainArc& arc : arcsFrom(position))
            work += back_[at(arc.last)].size() * arc.options.size();
        return work;
    }

    void goForward(std::size_t position)
    {
        Front labels;
        for (const int arc : chain_.arcsTo_[position])
            extend(arc, labels);
        settle(front_[position] = labels.take(), position);
    }

    void goBack(std::size_t position)
    {
        Front labels;
        const auto arcs = arcsFrom(position);
        for (const ChainArc& arc : arcs)
            extendBack(static_cast<int>(&arc - problem_.arcs.data()), labels);
        settle(back_[position] = labels.take(), position);
    }

    /// Keeps the `width_` labels of least bound.
    void settle(Labels& labels, std::size_t position)
    {
        if (labels.size() > width_) {
            pass_.complete = false;
            std::vector<std::pair<double, std::size_t>> order;
            order.reserve(labels.size());
            for (std::size_t i = 0; i < labels.size(); ++i)
                order.emplace_back(static_cast<double>(labels[i].time)
                                       + chain_.price_[position] * static_cast<double>(labels[i].bytes),
                                   i);
            std::ranges::nth_element(order, order.begin() + static_cast<std::ptrdiff_t>(width_));
            order.resize(width_);
            std::ranges::sort(order, {}, &std::pair<double, std::size_t>::second);
            Labels kept;
            kept.reserve(width_);
            for (const auto& [value, i] : order)
                kept.push_back(labels[i]);
            labels = std::move(kept);
        }
        pass_.labels += labels.size();
    }

    /// Counts the work of an option with so many labels.
    static void count(std::size_t labels)
    {
        SearchLimit::count(static_cast<double>(labels + labelsOfOption), nsPerLabel);
    }

    static std::vector<std::uint32_t> all(const Labels& labels)
    {
        std::vector<std::uint32_t> indices(labels.size());
        std::iota(indices.begin(), indices.end(), std::uint32_t{0});
        return indices;
    }

    void extend(int number, Front& to)
    {
        const ChainArc& arc = arcOf(number);
        const Labels& from = front_[at(arc.first)];
        const bool free = chain_.isFree(at(arc.first));
        const bool goesOn = chain_.sameRun(arc.first, arc.first - 1);
        std::vector<std::uint32_t> extended = all(from);
        const Bytes mostBytes = chain_.budget_ - chain_.leastNeed_[at(arc.last)];
        const double after = chain_.price_[at(arc.last)];
        std::vector<double> slack; // by label: the loss that an option may add
        std::vector<double> outside;
        slack.reserve(from.size());
        outside.reserve(from.size());
        for (const Label& label : from) {
            const double loss = lossOfFront(label, at(arc.first));
            outside.push_back(isInMiddle(arc.first - 1) ? label.outside : loss);
            slack.push_back(mostLoss(arc, outside.back()) - lossOfFront(label, at(arc.last)));
        }
        const double most = slack.empty() ? -infiniteCost : std::ranges::max(slack);
        const std::vector<int>& order = chain_.cheapestFirst_[at(number)];
        for (std::size_t place = 0; place < order.size(); ++place) {
            const ChainOption& option = arc.options[at(order[place])];
            const double own = static_cast<double>(option.time) + after * static_cast<double>(option.held);
            if (own > most || limit_.reached())
                return;
            const Bytes mostBefore
                = std::min(mostBytes - option.held, free ? unreachable : chain_.budget_ - option.high);
            if (goesOn)
                std::erase_if(extended, [&](std::uint32_t i) { return from[i].place < place; });
            count(extended.size());
            Labels next;
            for (const std::uint32_t i : extended) {
                if (from[i].bytes > mostBefore)
                    break;
                if (own <= slack[i])
                    next.push_back({from[i].bytes + option.held,
                                    from[i].time + option.time,
                                    {number, order[place]},
                                    i,
                                    static_cast<std::uint32_t>(place),
                                    outside[i]});
            }
            to.add(std::move(next));
        }
    }

    void extendBack(int number, Front& to)
    {
        const ChainArc& arc = arcOf(number);
        const Labels& from = back_[at(arc.last)];
        const bool free = chain_.isFree(at(arc.first));
        const bool goesOn = chain_.sameRun(arc.first, arc.last);
        std::vector<std::uint32_t> extended = all(from);
        const Bytes mostBytes = chain_.budget_ - chain_.leastHeld_[at(arc.first)];
        std::vector<double> limits; // by label: the most loss with an option
        std::vector<double> outside;
        limits.reserve(from.size());
        outside.reserve(from.size());
        double most = -infiniteCost;
        for (const Label& label : from) {
            const double loss = lossOfBack(label, at(arc.last));
            outside.push_back(isInMiddle(arc.last) ? label.outside : loss);
            limits.push_back(mostLoss(arc, outside.back()));
            most = std::max(most, limits.back() - loss);
        }
        const double change = chain_.head_[at(arc.first)] - chain_.head_[at(arc.last)];
        const std::vector<int>& order = chain_.cheapestBack_[at(number)];
        for (std::size_t place = 0; place < order.size(); ++place) {
            const ChainOption& option = arc.options[at(order[place])];
            if (change + chain_.priceOf(option, arc) > most || limit_.reached())
                return;
            if (goesOn)
                std::erase_if(extended, [&](std::uint32_t i) { return from[i].place < place; });
            count(extended.size());
            Labels next;
            for (const std::uint32_t i : extended) {
                const Bytes held = option.held + from[i].bytes;
                const Label label{free ? held : std::max(option.high, held),
                                  from[i].time + option.time,
                                  {number, order[place]},
                                  i,
                                  static_cast<std::uint32_t>(place),
                                  outside[i]};
                if (label.bytes > mostBytes)
                    break;
                if (lossOfBack(label, at(arc.first)) > limits[i])
                    continue;
                if (!next.empty() && next.back().bytes == label.bytes)
                    next.pop_back(); // the label takes longer
                next.push_back(label);
            }
            to.add(std::move(next));
        }
    }

    /// Joins front and back to the best path, over each arc that crosses the position `from`.
    void meet(int from)
    {
        struct
        {
            double time;
            std::uint32_t front = 0, back = 0;
            ChainStep step{-1, -1};
        } best{mustBeat_};
        for (int number = 0; number < static_cast<int>(problem_.arcs.size()); ++number) {
            const ChainArc& arc = arcOf(number);
            if (arc.first > from || arc.last <= from)
                continue;
            const Labels& front = front_[at(arc.first)];
            const Labels& back = back_[at(arc.last)];
            const double others = chain_.head_[at(arc.first)] + chain_.rest_[at(arc.last)];
            for (const int o : chain_.cheapestBack_[at(number)]) {
                const ChainOption& option = arc.options[at(o)];
                if (others + chain_.priceOf(option, arc) > best.time || limit_.reached())
                    break;
                const bool free = chain_.isFree(at(arc.first));
                std::size_t fitting = back.size(); // number of labels of the back that fit
                count(front.size());
                for (std::uint32_t i = 0; i < front.size() && fitting > 0; ++i) {
                    const Bytes left = chain_.budget_ - front[i].bytes;
                    if (!free && option.high > left)
                        break;
                    while (fitting > 0 && back[fitting - 1].bytes > left - option.held)
                        --fitting;
                    if (fitting == 0)
                        break;
                    const Picoseconds time = front[i].time + option.time + back[fitting - 1].time;
                    if (static_cast<double>(time) <= best.time)
                        best = {static_cast<double>(time) - leastImprovement,
                                i,
                                static_cast<std::uint32_t>(fitting - 1),
                                {number, o}};
                }
            }
        }
        if (best.step.arc < 0)
            return;
        pass_.path = pathOver(best.step, best.front, best.back);
        chain_.lineUp(*pass_.path);
        pass_.broken = chain_.brokenRow(*pass_.path);
    }

    ChainPath pathOver(ChainStep step, std::uint32_t front, std::uint32_t back) const
    {
        ChainPath path;
        for (int position = arcOf(step.arc).first; position > 0; position = arcOf(path.back().arc).first) {
            const Label& label = front_[at(position)][front];
            path.push_back(label.step);
            front = label.next;
        }
        std::ranges::reverse(path);
        path.push_back(step);
        for (int position = arcOf(step.arc).last; position < problem_.positions;
             position = arcOf(path.back().arc).last) {
            const Label& label = back_[at(position)][back];
            path.push_back(label.step);
            back = label.next;
        }
        return path;
    }

    const ChainLabels& chain_;
    const ChainProblem& problem_;
    std::size_t width_;
    double mustBeat_;
    double mostLoss_; ///< the most loss of a path that is better than mustBeat_
    Middle middle_;
    const SearchLimit& limit_;
    std::vector<Labels> front_; ///< by position
    std::vector<Labels> back_; ///< by position
    Pass pass_;
};

ChainLabels::Pass ChainLabels::run(std::size_t width, std::optional<Picoseconds> below, const SearchLimit& limit) const
{
    if (problem_->positions == 0 || problem_->constant > budget_) {
        Pass none;
        none.complete = true;
        return none;
    }
    return Search(*this, width, below ? static_cast<double>(*below) - leastImprovement : infiniteCost, limit).run();
}

} // namespace headroom
