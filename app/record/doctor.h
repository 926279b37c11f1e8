// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom {

/// `torch-headroom-record doctor`: prints the report as text, or as JSON if `json`. Returns the exit code.
int runDoctor(bool json);

} // namespace headroom
