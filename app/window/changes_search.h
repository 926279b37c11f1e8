// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/fit_recorder.h"
#include "core/base/task_runner.h"
#include "core/fit/changes.h"

#include <QObject>
#include <QString>
#include <QTemporaryDir>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace headroom {

class FitPanel;
class Session;

/// Searches what would make the open step take less memory on its card (changesThatHelp()), for the FitPanel: a thread
/// calculates, and other processes record variants of a model. A change that is chosen becomes the open step, plan,
/// card or setting, as one undo step; of other changes the panel says the code.
class ChangesSearch : public QObject
{
    Q_OBJECT
public:
    /// Records the step of a size with other options of `torch-headroom record`. Called on a thread.
    using RecordVariantStep = std::function<Result<RecordedStep>(
        const StepSize& size, const std::vector<std::string>& options, const std::string& gpu, const std::stop_token&)>;
    struct Parts
    {
        std::string recorder; ///< path of torch-headroom-record
        QString folder; ///< folder of the steps that are opened; each is deleted when the window closes
        std::function<RecordVariantStep(const FitProgram&)> makeRecorder = {}; ///< empty: a FitRecorder
    };

    ChangesSearch(Session& session, FitPanel& panel, QObject* parent = nullptr);
    void use(Parts parts); ///< to be called before a step is open

    void start();
    void cancel();
    void choose(std::size_t change); ///< index in Changes::list
    bool running() const noexcept { return running_; }

Q_SIGNALS:
    /// The step with a change is in `path`: to be opened in place of the open step, for the GPU `card`.
    void stepWanted(const QString& path, const QString& what, const std::string& card);
    void cardWanted(const std::string& card);
    void ended(); ///< a search or a recording is complete, cancelled or failed

private:
    /// What a search is of.
    struct Subject
    {
        StepTracePtr step; ///< with the times of the card
        TimeChoice times;
        CardPtr card;
        FitProgram program; ///< no words: variants are not recorded
        StepSize size;
    };

    void forget();
    void begin(const QString& words);
    void end();
    void record(const Change& change);
    void show(const Result<Changes>& found);

    Session& session_;
    FitPanel& panel_;
    Parts parts_;
    Subject subject_;
    std::shared_ptr<const Changes> changes_; ///< null: none are known
    std::unique_ptr<QTemporaryDir> place_;
    std::stop_source stop_;
    quint64 number_ = 0; ///< of searches and recordings
    int opened_ = 0;
    bool running_ = false;
    TaskRunner runner_; ///< the last member: the thread ends before the other members
};

} // namespace headroom
