// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/fit/learned_step.h"

#include "core/base/try.h"
#include "core/trace/step_format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {
namespace {

/// The columns that depend on a size. All others have to be equal.
bool dependsOnSize(std::string_view column)
{
    static const std::set<std::string_view> columns{
        "storages.bytes",
        "storages.requested",
        "ops.bytes",
        "ops.flops",
        "ops.ms",
        "ops.signature",
        "signatures.first",
        "signatures",
        "resizes.bytes",
        "resizes.requested",
        "collectives.bytes",
        "reserved.bytes",
        "before_training.bytes",
        "between_steps.bytes",
    };
    return columns.contains(column);
}

std::string counted(std::size_t one, std::size_t other, const char* what)
{
    return std::to_string(one) + " " + what + " and " + std::to_string(other);
}

/// The first count in which the steps differ, in words.
std::string differenceOf(const StepTrace& one, const StepTrace& other, std::string_view column)
{
    if (one.ops.size() != other.ops.size())
        return counted(one.ops.size(), other.ops.size(), "ops");
    if (one.storages.size() != other.storages.size())
        return counted(one.storages.size(), other.storages.size(), "blocks of memory");
    if (one.events.size() != other.events.size())
        return counted(one.events.size(), other.events.size(), "events");
    for (std::uint32_t op = 0; op < one.ops.size(); ++op)
        if (one.opName(OpId(op)) != other.opName(OpId(op)))
            return "op " + std::to_string(op + 1) + " is " + std::string(one.opName(OpId(op))) + " in a recording and "
                + std::string(other.opName(OpId(op))) + " in another";
    return "the column `" + std::string(column) + "` of the recordings";
}

/// Calls visit(column, rows of one, rows of the other) for every column.
template <class Visit>
void visitBoth(const StepTrace& one, const StepTrace& other, const Visit& visit)
{
    const StepTables<RowView>& first = one;
    const StepTables<RowView>& second = other;
    stepformat::visitColumns(visit, first, second);
    stepformat::visitOptionalColumns(visit, first, second);
}

/// Whether a text is the path of a file that Inductor generated. The name is a checksum of the code, and the code may
/// have sizes in it: "…/wf/cwfqrt….py".
bool isGenerated(std::string_view text)
{
    const std::size_t slash = text.rfind('/');
    if (slash == std::string_view::npos || slash < 3 || !text.ends_with(".py"))
        return false;
    const std::string_view name = text.substr(slash + 1);
    return name.size() > 40 && name.front() == 'c' && text[slash - 3] == '/'
        && name.substr(1, 2) == text.substr(slash - 2, 2);
}

/// Whether the steps have the same texts, the names of generated files aside.
bool sameTexts(const StepTrace& one, const StepTrace& other)
{
    if (!std::ranges::equal(one.strings.first, other.strings.first))
        return false;
    for (std::uint32_t i = 0; i + 1 < one.strings.first.size(); ++i) {
        const std::string_view first = one.strings[StringId(i)];
        const std::string_view second = other.strings[StringId(i)];
        if (first != second && !(isGenerated(first) && isGenerated(second)))
            return false;
    }
    return true;
}

bool sameSignatureForms(const StepTrace& one, const StepTrace& other)
{
    if (one.ops.signature.size() != other.ops.signature.size())
        return false;
    for (std::uint32_t op = 0; op < one.ops.signature.size(); ++op)
        if (one.signatureOf(OpId(op)).size() != other.signatureOf(OpId(op)).size())
            return false;
    return true;
}

/// The Lagrange polynomial through values at the sizes of the recordings, at another size.
class Polynomial
{
public:
    Polynomial(std::span<const SizedStep> steps, std::int64_t size)
    {
        for (const SizedStep& at : steps) {
            long double weight = 1;
            for (const SizedStep& other : steps)
                if (other.size != at.size)
                    weight
                        *= static_cast<long double>(size - other.size) / static_cast<long double>(at.size - other.size);
            weights_.push_back(weight);
        }
    }

    std::size_t points() const noexcept { return weights_.size(); }

    /// `value(i)` is the number in recording i.
    template <class Value>
    long double at(const Value& value) const
    {
        long double sum = 0;
        const auto first = static_cast<long double>(value(0));
        // Sums of differences, so that a constant stays exactly itself.
        for (std::size_t i = 1; i < weights_.size(); ++i)
            sum += weights_[i] * (static_cast<long double>(value(i)) - first);
        return first + sum;
    }
    template <class Value>
    std::int64_t wholeAt(const Value& value) const
    {
        return std::llround(at(value));
    }

private:
    std::vector<long double> weights_;
};

/// What a calculated step owns: the columns with other numbers, and the recording of all other columns.
struct Columns
{
    StepTracePtr base;
    std::vector<Bytes> storageBytes, storageRequested, opBytes, resizeBytes, resizeRequested, collectiveBytes,
        reservedBytes, beforeBytes, betweenBytes;
    std::vector<double> flops, ms;
    std::vector<SignatureId> signatures;
    std::vector<std::uint32_t> signatureFirst;
    std::vector<std::int64_t> signatureValues;
};

class Calculation
{
public:
    Calculation(std::span<const SizedStep> steps, std::int64_t size)
        : steps_(steps)
        , polynomial_(steps, size)
    {
    }

    /// Replaces `rows` of `target` by calculated ones, which `own` keeps.
    template <class T, class Rows>
    void column(std::span<const T>& target, std::vector<T>& own, const Rows& rows) const
    {
        own.resize(target.size());
        for (std::size_t row = 0; row < own.size(); ++row) {
            const long double value = polynomial_.at([&](std::size_t i) { return rows(*steps_[i].step)[row]; });
            if constexpr (std::is_integral_v<T>)
                own[row] = static_cast<T>(std::llround(value));
            else
                own[row] = static_cast<T>(value);
        }
        target = own;
    }

    /// The signatures, one row for all ops whose signatures are equal in every recording.
    void signatures(StepTrace& target, Columns& own) const
    {
        const std::size_t ops = target.ops.signature.size();
        std::map<std::vector<std::uint32_t>, SignatureId> known;
        own.signatureFirst.push_back(0);
        for (std::uint32_t op = 0; op < ops; ++op) {
            std::vector<std::uint32_t> key;
            for (const SizedStep& at : steps_)
                key.push_back(at.step->ops.signature[OpId(op)].value);
            if (!target.ops.signature[OpId(op)].valid()) {
                own.signatures.emplace_back();
                continue;
            }
            const auto [found, isNew]
                = known.emplace(std::move(key), SignatureId(static_cast<std::uint32_t>(known.size())));
            own.signatures.push_back(found->second);
            if (!isNew)
                continue;
            const std::size_t values = target.signatureOf(OpId(op)).size();
            for (std::size_t value = 0; value < values; ++value)
                own.signatureValues.push_back(
                    polynomial_.wholeAt([&](std::size_t i) { return steps_[i].step->signatureOf(OpId(op))[value]; }));
            own.signatureFirst.push_back(static_cast<std::uint32_t>(own.signatureValues.size()));
        }
        target.ops.signature.rows = own.signatures;
        if (ops == 0)
            return;
        target.signatures.values.first = own.signatureFirst;
        target.signatures.values.rows = own.signatureValues;
    }

    std::int64_t whole(const std::function<std::int64_t(const StepInfo&)>& value) const
    {
        return polynomial_.wholeAt([&](std::size_t i) { return value(steps_[i].step->info); });
    }

    /// A setting of whole numbers with spaces between, such as bytes; otherwise the text of the base.
    std::string setting(const std::string& name, const std::string& text) const
    {
        std::vector<std::vector<std::int64_t>> numbers;
        for (const SizedStep& at : steps_)
            numbers.push_back(numbersIn(at.step->info.setting(name)));
        const auto differs = [&](const auto& list) { return list.size() != numbers.front().size(); };
        if (numbers.front().empty() || std::ranges::any_of(numbers, differs))
            return text;
        std::string calculated;
        for (std::size_t number = 0; number < numbers.front().size(); ++number)
            calculated += (number > 0 ? " " : "")
                + std::to_string(polynomial_.wholeAt([&](std::size_t i) { return numbers[i][number]; }));
        return calculated;
    }

private:
    /// The numbers of a text that has nothing else; empty: it has.
    static std::vector<std::int64_t> numbersIn(std::string_view text)
    {
        std::vector<std::int64_t> numbers;
        while (!text.empty()) {
            std::int64_t number = 0;
            const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
            if (problem != std::errc())
                return {};
            numbers.push_back(number);
            text.remove_prefix(static_cast<std::size_t>(end - text.data()));
            if (!text.empty() && text.front() != ' ')
                return {};
            text.remove_prefix(text.empty() ? 0 : 1);
        }
        return numbers;
    }

    std::span<const SizedStep> steps_;
    Polynomial polynomial_;
};

/// Settings whose numbers depend on the size (core/trace/earlier_steps.h); others are the program's own.
bool isOfSize(std::string_view setting)
{
    return setting.starts_with("bytes ");
}

void calculateInfo(StepInfo& info, const Calculation& calculation)
{
    info.arguments.clear();
    info.batch = calculation.whole([](const StepInfo& at) { return at.batch; });
    info.sequence = calculation.whole([](const StepInfo& at) { return at.sequence; });
    for (StepInfo::Dimension& dimension : info.dimensions)
        dimension.value = dimension.name == "sequence" ? info.sequence : info.batch;
    for (auto& [name, text] : info.settings)
        if (isOfSize(name))
            text = calculation.setting(name, text);
}

} // namespace

StepTracePtr withSortedFrees(const StepTracePtr& step)
{
    struct Columns
    {
        std::vector<std::uint32_t> storages; ///< events.a
        StepTracePtr step; ///< owns the other columns
    };
    const auto& kinds = step->events.kind.rows;
    const auto& events = step->events.a.rows;
    auto columns = std::make_shared<Columns>(Columns{{events.begin(), events.end()}, step});
    std::set<std::uint32_t> borders; // events that something else happens before
    for (const EventIndex at : step->streamEvents.position)
        borders.insert(at.value);
    for (const EventIndex at : step->reserved.event)
        borders.insert(at.value);
    for (std::size_t begin = 0, end = 0; begin < kinds.size(); begin = end) {
        end = begin + 1;
        if (kinds[begin] != EventKind::free)
            continue;
        while (end < kinds.size() && kinds[end] == EventKind::free
               && !borders.contains(static_cast<std::uint32_t>(end)))
            ++end;
        std::sort(columns->storages.begin() + static_cast<std::ptrdiff_t>(begin),
                  columns->storages.begin() + static_cast<std::ptrdiff_t>(end));
    }
    auto sorted = std::make_shared<StepTrace>(*step);
    sorted->events.a.rows = columns->storages;
    sorted->memory = std::move(columns);
    return sorted;
}

Status sameStructure(const StepTrace& one, const StepTrace& other)
{
    std::string different;
    visitBoth(one, other, [&](std::string_view column, const auto& first, const auto& second) {
        const bool equal = dependsOnSize(column) ? column.starts_with("signatures") || first.size() == second.size()
            : column == "strings.text"           ? sameTexts(one, other)
                                                 : std::ranges::equal(first, second);
        if (!equal && different.empty())
            different = column;
    });
    if (different.empty() && !sameSignatureForms(one, other))
        different = "signatures";
    if (different.empty())
        return {};
    return badInput(differenceOf(one, other, different));
}

bool sameSizes(const StepTrace& one, const StepTrace& other)
{
    bool same = true;
    visitBoth(one, other, [&](std::string_view, const auto& first, const auto& second) {
        same = same && std::ranges::equal(first, second);
    });
    return same;
}

Result<StepTracePtr> stepAtSize(std::span<const SizedStep> steps, std::int64_t size)
{
    const auto nearest
        = std::ranges::min_element(steps, {}, [&](const SizedStep& at) { return std::abs(at.size - size); });
    for (const SizedStep& at : steps)
        RETURN_IF_ERROR(sameStructure(*nearest->step, *at.step));
    auto own = std::make_shared<Columns>();
    own->base = nearest->step;
    auto step = std::make_shared<StepTrace>(*nearest->step);
    const Calculation calculation(steps, size);
    const auto column = [&](auto& target, auto& kept, const auto& rows) { calculation.column(target, kept, rows); };
    column(step->storages.requested.rows, own->storageRequested,
           [](const StepTrace& at) { return at.storages.requested.rows; });
    column(step->resizes.requested, own->resizeRequested, [](const StepTrace& at) { return at.resizes.requested; });
    column(step->ops.bytes.rows, own->opBytes, [](const StepTrace& at) { return at.ops.bytes.rows; });
    column(step->ops.flops.rows, own->flops, [](const StepTrace& at) { return at.ops.flops.rows; });
    column(step->collectives.bytes, own->collectiveBytes, [](const StepTrace& at) { return at.collectives.bytes; });
    column(step->reserved.bytes, own->reservedBytes, [](const StepTrace& at) { return at.reserved.bytes; });
    column(step->beforeTraining.bytes, own->beforeBytes, [](const StepTrace& at) { return at.beforeTraining.bytes; });
    column(step->betweenSteps.bytes, own->betweenBytes, [](const StepTrace& at) { return at.betweenSteps.bytes; });
    const auto rounded = [](const std::vector<Bytes>& requested, std::vector<Bytes>& kept) {
        for (const Bytes bytes : requested)
            kept.push_back(roundedToBlock(bytes));
        return std::span<const Bytes>(kept);
    };
    step->storages.bytes.rows = rounded(own->storageRequested, own->storageBytes);
    step->resizes.bytes = rounded(own->resizeRequested, own->resizeBytes);
    own->ms.assign(step->ops.size(), 0);
    step->ops.ms.rows = own->ms;
    calculation.signatures(*step, *own);
    calculateInfo(step->info, calculation);
    const auto isNegative = [](Bytes bytes) { return bytes < 0; };
    if (std::ranges::any_of(own->storageRequested, isNegative))
        return badInput("a block's size, calculated from recordings at " + std::to_string(steps.front().size) + " to "
                        + std::to_string(steps.back().size) + " is negative at " + std::to_string(size));
    step->memory = std::move(own);
    return StepTracePtr(std::move(step));
}

} // namespace headroom
