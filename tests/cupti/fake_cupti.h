// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cupti/cupti_api.h"
#include "tests/cupti/activity_buffer.h"

#include <deque>
#include <set>
#include <vector>

namespace headroom::cupti {

/// A CUPTI that fills buffers with what a test queued and fails as the test says. Functions of CUPTI have no context,
/// so there is one; reset() makes it new.
struct FakeCupti
{
    static FakeCupti& instance();
    static CuptiApi api(); ///< its functions
    static void reset() { instance() = FakeCupti(); }

    std::deque<ActivityBuffer> queued; ///< handed out by the next flush, a buffer each
    CUptiResult registerResult = CUPTI_SUCCESS;
    CUptiResult flushResult = CUPTI_SUCCESS;
    CUpti_ActivityKind refusedKind = CUPTI_ACTIVITY_KIND_INVALID; ///< enabling it fails …
    CUptiResult refusal = CUPTI_SUCCESS; ///< … with this
    std::size_t dropped = 0; ///< until it is asked for
    std::set<CUpti_ActivityKind> enabled;
    std::vector<std::string> calls; ///< of the external ids: "push 3 17", "pop 3"
    CUpti_BuffersCallbackRequestFunc request = nullptr;
    CUpti_BuffersCallbackCompleteFunc complete = nullptr;
};

} // namespace headroom::cupti
