// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/open_step.h"

#include <QObject>

#include <optional>

namespace headroom {

class Actions;
class AllocatorPage;
class FitPage;
class Jobs;
class LiveBlocksModel;
class LowerPanel;
class OpsModel;
class PeakPanel;
class Session;
class TimelineView;
class TradeOffView;

/// Fills the pages of the LowerPanel when shown: the live blocks at the instant pinned in the timeline (else at the
/// peak), the ops of the selected module, the memory that the caching allocator reserves, what fits, and the comparison
/// with another peak. With a range selected in the timeline, blocks and ops are those of the range.
class LowerPages : public QObject
{
    Q_OBJECT
public:
    LowerPages(Session& session, Jobs& jobs, Actions& actions, TimelineView& timeline, TradeOffView* tradeOff,
               QObject* parent = nullptr);

    LowerPanel* panel() const noexcept { return panel_; }
    AllocatorPage* allocator() const noexcept { return allocator_; }
    FitPage* fit() const noexcept { return fit_; }
    PeakPanel* peaks() const noexcept { return peaks_; }

Q_SIGNALS:
    void rangeChanged(const headroom::StepRangePtr& range); ///< null: none
    void lineWanted(headroom::FrameId frame); ///< request to open a line of source code; invalid: not known

private:
    struct Instant
    {
        std::size_t changeCount = 0;
        bool planned = false;
    };

    void wire(Jobs& jobs, TimelineView& timeline);
    void wireRange(Jobs& jobs, TimelineView& timeline);
    void wireActions(const Actions& actions);
    TimelinePtr planned() const; ///< timeline of the shown plan; null: the recorded step is shown
    void showStep();
    void askForRange();
    void showRange(const StepRangePtr& range);
    void askForLiveMemory();
    void showLiveMemory(const LiveBlocksAt& memory);
    void selectNode(std::uint32_t node);
    FrameId currentLine() const;
    void showOps();
    void showOpsTitle();
    void showPeaks();

    Session& session_;
    Jobs& jobs_;
    LiveBlocksModel* live_;
    OpsModel* ops_;
    AllocatorPage* allocator_;
    FitPage* fit_;
    PeakPanel* peaks_;
    LowerPanel* panel_;
    std::optional<Instant> pinned_;
    std::optional<TimeRange> selected_; ///< in the timeline
    StepRangePtr range_; ///< what happens in the selected range; null: none, or not known yet
    bool onlyModule_ = false; ///< with a range: the table of ops shows only those of the selected module
    bool onlyChanged_ = false; ///< the table of ops shows only ops with a changed decision
    bool selectsNode_ = false; ///< a node of the icicle is being selected
    bool units_ = false; ///< the table of live blocks shows unsharded bytes by unit
};

} // namespace headroom
