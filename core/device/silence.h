// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <c10/util/Exception.h>

namespace headroom::sim {

/// Suppresses libtorch's warnings while the object lives: the dispatcher warns of every kernel that replaces another.
class Silence
{
public:
    Silence()
        : guard_(&nobody_)
    {
    }

private:
    class Nobody final : public c10::WarningHandler
    {
    public:
        void process(const c10::Warning&) override {}
    };

    Nobody nobody_;
    c10::WarningUtils::WarningHandlerGuard guard_;
};

} // namespace headroom::sim
