// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom {

/// Makes screen readers meet our plots as charts, with their accessible name and description as text, instead of as
/// scroll areas full of graphics items. Calling it again does nothing.
void makeChartsAccessible();

} // namespace headroom
