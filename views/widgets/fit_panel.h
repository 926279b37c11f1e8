// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/models/fit_model.h"

#include <QWidget>

#include <string>
#include <vector>

class QLineEdit;
class QMenu;
class QProgressBar;
class QPushButton;
class QToolButton;
class QTreeView;

namespace headroom {

class ElidedLabel;
class FitChart;
class LegendBar;

/// The panel that asks for cards and sizes of a training step, and shows what fits and what is fastest: as a chart and
/// as a table, beside one another if there is room. The panel emits what is wanted, and computes nothing.
class FitPanel : public QWidget
{
    Q_OBJECT
public:
    struct Card
    {
        std::string name; ///< of a DeviceSpec
        QString note; ///< "recorded", "other kernels"; may be empty
        bool isChosen = false;
    };

    explicit FitPanel(QWidget* parent = nullptr);

    void setCards(const std::vector<Card>& cards);
    std::vector<std::string> cards() const; ///< names of the chosen cards
    /// `hint` is an example, shown in an empty field. An empty hint of the sequence: the step has none.
    void setBatch(const QString& sizes, const QString& hint);
    void setSequence(const QString& sizes, const QString& hint);
    QString batch() const;
    QString sequence() const;
    QString globalBatch() const; ///< samples of an optimizer step; empty: each batch is one
    QString share() const; ///< of the card's memory for this program, 0 to 1; empty: all
    QString beside() const; ///< a size that another program takes on the card; empty: none

    /// Why there is nothing to start, a sentence; empty: a search can be started.
    void setWhyNot(const QString& sentence);
    void setRunning(bool running);
    void setEnding(); ///< cancelled, and the processes are still ending
    void showProgress(double share, const QString& words); ///< `share` of the work, 0 to 1; negative: not known
    void say(const QString& words, const QString& tip = {}); ///< in the line below the fields
    void showProblem(const QString& sentence);
    /// Shows sizes as far as known. `ofSequences`: rates are tokens a second, over the sequence length.
    void showResult(const FitResultPtr& result, bool ofSequences);

    /// Shows changes that would help in place of the sizes; null: the sizes.
    void showChanges(const ChangesPtr& changes);

    FitChart* chart() const noexcept { return chart_; }
    QTreeView* table() const noexcept { return table_; }
    QTreeView* changes() const noexcept { return changes_; }
    ElidedLabel* words() const noexcept { return words_; }

Q_SIGNALS:
    void startWanted();
    void cancelWanted();
    void chosen(std::size_t series, std::size_t row); ///< the step of this size is to be opened
    void exportWanted();
    void helpWanted(); ///< what would help
    void changeChosen(std::size_t change); ///< index in Changes::list

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;
    void changeEvent(QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;

private:
    void layOut();
    QWidget* makeMoreFields();
    void wire();
    void showParts();
    void showCards();
    void showLegend();
    QString emptyWords() const;

    QWidget* fields_; ///< the first row
    QToolButton* card_;
    QMenu* cards_;
    QLineEdit* batch_;
    QLineEdit* sequence_;
    QToolButton* more_; ///< shows the next fields
    QLineEdit* globalBatch_;
    QLineEdit* share_;
    QLineEdit* beside_;
    QPushButton* start_;
    QProgressBar* bar_;
    ElidedLabel* words_;
    QToolButton* help_;
    QToolButton* asTable_;
    QToolButton* export_;
    LegendBar* legend_;
    FitChart* chart_;
    FitModel* model_;
    QTreeView* table_;
    ChangesModel* changesModel_;
    QTreeView* changes_;
    QString whyNot_;
    bool running_ = false;
    bool showsChanges_ = false;
};

} // namespace headroom
