// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom::cli {

/// Whether `verify` with these arguments compares two recorded steps, which needs no torch-headroom-record.
bool comparesSteps(char** arguments);

} // namespace headroom::cli
