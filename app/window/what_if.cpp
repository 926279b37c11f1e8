// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/what_if.h"

#include "app/window/record_controller.h"
#include "app/window/session.h"
#include "app/window/step_text.h"
#include "views/widgets/size_fields.h"

#include <QCoreApplication>
#include <QDir>

#include <algorithm>
#include <array>
#include <utility>

namespace headroom {
namespace {

constexpr int typingMs = 400;

/// The option of `torch-headroom record` for a dimension's name.
QString optionOf(const QString& dimension)
{
    return dimension == QLatin1String("sequence") ? QStringLiteral("--seq") : QStringLiteral("--") + dimension;
}

} // namespace

QStringList withOption(QStringList arguments, const QString& option, const QString& value)
{
    for (qsizetype i = 0; i < arguments.size(); ++i) {
        if (arguments[i] == option && i + 1 < arguments.size()) {
            arguments[i + 1] = value;
            return arguments;
        }
        if (arguments[i].startsWith(option + QLatin1Char('='))) {
            arguments[i] = option + QLatin1Char('=') + value;
            return arguments;
        }
    }
    return arguments << option << value;
}

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
    if (isBatchName(name))
        return 0;
    const QString lower = QString::fromStdString(name).toLower();
    const auto named = [&](const char* part) { return lower.contains(QLatin1String(part)); };
    return std::ranges::any_of(sequences, named) ? 1 : 2;
}

} // namespace

bool isBatchName(const std::string& name)
{
    const QString lower = QString::fromStdString(name).toLower();
    return lower.contains(QLatin1String("batch")) || lower.endsWith(QLatin1String("bs"));
}

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

WhatIf::WhatIf(Session& session, SizeFields& fields, RecordController& records, QString folder, QObject* parent)
    : QObject(parent)
    , session_(session)
    , fields_(fields)
    , records_(records)
    , folder_(std::move(folder))
{
    typing_.setSingleShot(true);
    typing_.setInterval(typingMs);
    connect(&typing_, &QTimer::timeout, this, &WhatIf::begin);
    connect(&recording_, &Recording::progressed, this, [this](double share, const QString&) { showProgress(share); });
    connect(&recording_, &Recording::finished, this, [this](const QString& path) {
        if (typing_.isActive())
            return; // another size is wanted by now
        const QString sizes = sizesText();
        const QString gpu = std::exchange(wanted_, {}).value(card);
        Q_EMIT recorded(path, sizes, gpu);
    });
    connect(&recording_, &Recording::failed, this, [this](const QString& reason) {
        if (typing_.isActive())
            return; // another size is wanted by now
        wanted_.clear();
        showStep();
        Q_EMIT failed(reason);
    });
    connect(&recording_, &Recording::cancelled, this, [this] {
        if (std::exchange(again_, false))
            start();
        else if (wanted_.isEmpty())
            showStep();
    });
    connect(&fields_, &SizeFields::sizeWanted, this,
            [this](const QString& dimension, qint64 value) { want(dimension, QString::number(value)); });
    connect(&fields_, &SizeFields::cancelWanted, this, &WhatIf::cancel);
    connect(&session_, &Session::stepChanged, this, [this] {
        cancel();
        showStep();
    });
}

void WhatIf::showStep()
{
    fields_.setResult(sizeResult(session_));
}

void WhatIf::showProgress(double share)
{
    if (!wanted_.isEmpty())
        fields_.setRecording(share, sizesText());
}

void WhatIf::want(const QString& what, const QString& value)
{
    if (!session_.isOpen())
        return;
    wanted_.insert(what, value);
    typing_.start();
}

void WhatIf::cancel()
{
    typing_.stop();
    wanted_.clear();
    again_ = false;
    if (recording_.running())
        recording_.cancel();
    else
        showStep();
}

void WhatIf::begin()
{
    if (wantsTheSame()) {
        cancel();
        return;
    }
    showProgress(-1);
    again_ = recording_.running();
    if (again_)
        recording_.cancel();
    else
        start();
}

void WhatIf::start()
{
    if (!session_.isOpen() || wanted_.isEmpty())
        return;
    if (!place_) {
        // The name is a recording's folder name: if this program is killed, the next program removes the folder.
        QDir().mkpath(folder_);
        place_ = std::make_unique<QTemporaryDir>(QDir(folder_).filePath(
            QStringLiteral(".recording-%1-sizes-XXXXXX").arg(QCoreApplication::applicationPid())));
    }
    if (!trainingProgram(session_.step()->trace()).isEmpty()) {
        recordScript();
        return;
    }
    QStringList arguments = recordArguments(session_.step()->trace());
    for (auto wanted = wanted_.begin(); wanted != wanted_.end(); ++wanted)
        arguments = withOption(arguments, optionOf(wanted.key()), wanted.value());
    record(recorderCommand(records_.recorder(), arguments, sizesText()));
}

/// The user may be asked before, and change the request meanwhile.
void WhatIf::recordScript()
{
    const StepTrace& trace = session_.step()->trace();
    QStringList arguments = recordArguments(trace);
    for (auto wanted = wanted_.begin(); wanted != wanted_.end(); ++wanted)
        arguments = withScriptSize(arguments, wanted.key(), *wanted);
    records_.withPython(
        trace,
        [this, arguments, folder = recordedFolder(trace), asked = wanted_](const QString& python) {
            if (asked == wanted_)
                record(scriptCommand(python, arguments, folder, sizesText()));
        },
        [this] { cancel(); });
}

void WhatIf::record(const RecordCommand& command)
{
    QString name = sizesText();
    name.remove(QLatin1Char(' '))
        .replace(QLatin1Char(','), QLatin1Char('-'))
        .replace(QLatin1Char('/'), QLatin1Char('-'));
    recording_.start(command, place_->filePath(name + QStringLiteral(".hrs")));
}

bool WhatIf::wantsTheSame() const
{
    if (!session_.isOpen())
        return true;
    const StepInfo& info = session_.step()->file->info;
    QMap<QString, QString> has{{card, QString::fromStdString(info.gpu)}};
    for (const StepInfo::Dimension& dimension : sizesOf(*session_.step()->file))
        has.insert(QString::fromStdString(dimension.name), QString::number(dimension.value));
    for (auto wanted = wanted_.begin(); wanted != wanted_.end(); ++wanted) {
        if (*wanted != has.value(wanted.key()))
            return false;
    }
    return true;
}

QString WhatIf::sizesText() const
{
    QStringList words;
    for (auto wanted = wanted_.begin(); wanted != wanted_.end(); ++wanted)
        words << QStringLiteral("%1 %2").arg(wanted.key()).arg(wanted.value());
    return words.join(QStringLiteral(", "));
}

} // namespace headroom
