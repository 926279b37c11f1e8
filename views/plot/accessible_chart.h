// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom {

/// Exposes Headroom's plots to screen readers as charts with accessible name and description, instead of as scroll
/// areas of graphics items. A second call does nothing.
void makeChartsAccessible();

} // namespace headroom
