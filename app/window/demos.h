// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/widgets/start_page.h"

#include <vector>

namespace headroom {

/// The models that the start page offers to record.
std::vector<DemoModel> demoModels();

} // namespace headroom
