// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/fit_recorder.h"
#include "app/window/changes_search.h"
#include "core/base/task_runner.h"
#include "views/export/export.h"
#include "views/widgets/fit_panel.h"

#include <QElapsedTimer>
#include <QObject>
#include <QTemporaryDir>
#include <QTimer>

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

namespace headroom {

class Session;

/// Searches the sizes of the open step's program that run on cards, for the FitPanel: other processes record steps, and
/// a thread plans. Results are shown as they come. A size opens in place of the open step. Another program than that of
/// the results ends the search.
class FitPage : public QObject
{
    Q_OBJECT
public:
    struct Parts
    {
        /// As RecordController::withPython().
        std::function<void(const StepTrace&, const std::function<void(const QString&)>& run,
                           const std::function<void()>& refuse)>
            withPython;
        std::string recorder; ///< path of torch-headroom-record
        QString folder; ///< folder of the steps that are opened; each is deleted when the window closes
        /// Makes what records a program's steps, called on a thread; empty: a FitRecorder.
        std::function<RecordSteps(const FitProgram&)> makeRecorder = {};
    };

    explicit FitPage(Session& session, QObject* parent = nullptr);
    void use(Parts parts); ///< to be called before a step is open

    FitPanel* panel() const noexcept { return panel_; }
    ChangesSearch& changes() noexcept { return changes_; }
    bool running() const noexcept { return searching_ || opening_ || changes_.running(); }
    void start();
    void startChanges(); ///< lists what would help
    void cancel(); ///< keeps the sizes that are known
    void open(std::size_t series, std::size_t row); ///< indexes of FitResult::series and FitSeries::rows
    FitExport exported() const; ///< what the panel shows

Q_SIGNALS:
    /// The step of a size is in `path`: to be opened in place of the open step, for the GPU `card`. `size`: "batch 23".
    void stepWanted(const QString& path, const QString& size, const std::string& card);
    void ended(); ///< a search is complete, cancelled or failed

private:
    /// What the search does now.
    struct Stage
    {
        std::string gpu;
        QString words;
        int done = 0, all = 0; ///< sizes of a recording
        QElapsedTimer since; ///< since the first of these sizes
    };

    void showStep();
    void showCards();
    void showFields();
    void forget();
    Result<FitRequest> readRequest(FitProgram& program) const;
    Status readRest(FitRequest& request) const;
    void withProgram(const std::function<void(const FitProgram&)>& run);
    void search(const FitProgram& program, const FitRequest& request);
    void take(const FitSeries& series, const std::string& next);
    void finish(const Result<FitResult>& result);
    void finishOpening(const Result<std::string>& file, const QString& size, const std::string& card);
    void showResult();
    void showProgress();
    QString summary(bool all) const;

    Session& session_;
    FitPanel* panel_;
    ChangesSearch changes_;
    Parts parts_;
    std::optional<FitProgram> program_; ///< of the search; nullopt: none was started
    FitRequest request_;
    FitResult result_;
    std::unique_ptr<QTemporaryDir> place_;
    Stage stage_;
    QElapsedTimer since_; ///< since the search began
    QTimer ticks_; ///< runs while the search does
    bool searching_ = false;
    bool opening_ = false;
    qint64 sizeMs_ = 0; ///< a size of the last recording took; 0: not known
    std::stop_source stop_; ///< of the search and the opening
    quint64 searches_ = 0;
    quint64 openings_ = 0;
    TaskRunner opener_;
    TaskRunner searcher_;
};

} // namespace headroom
