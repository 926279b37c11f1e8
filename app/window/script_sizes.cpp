// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/script_sizes.h"

#include "app/window/plan_text.h"
#include "app/window/what_if.h"

#include <algorithm>
#include <array>

namespace headroom {
namespace {

constexpr std::size_t mostSizes = 3; ///< the header has no room for more

/// Index of the first argument of the script itself; the arguments before are those of the recorder or a launcher.
qsizetype beginOfOwn(const QStringList& arguments)
{
    for (qsizetype i = 0; i < arguments.size(); ++i) {
        if (arguments[i].endsWith(QLatin1String(".py")))
            return i + 1;
        if (arguments[i] == QLatin1String("-m"))
            return std::min(i + 2, arguments.size());
    }
    return arguments.size();
}

/// A word such as --batch-size=64, or the two words --batch-size 64. `name` is empty if there is no number.
struct Given
{
    QString name;
    qint64 value = 0;
};

Given givenAt(const QStringList& words, qsizetype at)
{
    const QString& word = words[at];
    const qsizetype equals = word.indexOf(QLatin1Char('='));
    const bool next = equals < 0 && word.startsWith(QLatin1Char('-')) && at + 1 < words.size();
    if (equals < 1 && !next)
        return {};
    bool whole = false;
    const qint64 value = (next ? words[at + 1] : word.mid(equals + 1)).toLongLong(&whole);
    return whole && value > 0 ? Given{next ? word : word.left(equals), value} : Given{};
}

/// Place of an argument in the order of the fields: a batch, a sequence, any other.
int rankOf(const std::string& name)
{
    static constexpr std::array<const char*, 5> sequences{"seq", "block", "length", "len", "context"};
    const QString lower = QString::fromStdString(name).toLower();
    if (lower.contains(QLatin1String("batch")) || lower.endsWith(QLatin1String("bs")))
        return 0;
    const auto named = [&](const char* part) { return lower.contains(QLatin1String(part)); };
    return std::ranges::any_of(sequences, named) ? 1 : 2;
}

} // namespace

std::vector<StepInfo::Dimension> sizesOf(const StepTrace& trace)
{
    if (!trainingProgram(trace).isEmpty())
        return scriptSizes(trace);
    return canRecordAgain(trace) ? trace.info.dimensions : std::vector<StepInfo::Dimension>();
}

std::vector<StepInfo::Dimension> scriptSizes(const StepTrace& trace)
{
    const QStringList arguments = recordArguments(trace);
    const QStringList own = arguments.mid(beginOfOwn(arguments));
    std::vector<StepInfo::Dimension> sizes;
    if (!trace.info.simulated || recordedPython(trace).isEmpty())
        return sizes;
    for (qsizetype i = 0; i < own.size(); ++i) {
        if (const Given given = givenAt(own, i); !given.name.isEmpty())
            sizes.push_back({given.name.toStdString(), given.value, 1, 0});
    }
    std::erase_if(sizes, [all = sizes](const StepInfo::Dimension& size) {
        return std::ranges::count(all, size.name, &StepInfo::Dimension::name) > 1;
    });
    std::ranges::stable_sort(sizes, {}, [](const StepInfo::Dimension& size) { return rankOf(size.name); });
    sizes.resize(std::min(sizes.size(), mostSizes));
    return sizes;
}

QStringList withScriptSize(const QStringList& arguments, const QString& name, const QString& value)
{
    const qsizetype begin = beginOfOwn(arguments);
    return arguments.mid(0, begin) + withOption(arguments.mid(begin), name, value);
}

} // namespace headroom
