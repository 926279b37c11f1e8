// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom {

/// The versions of packaging/dependencies/torch-versions.txt, for people: "torch OLDEST to NEWEST".
extern const char* const supportedTorch;

} // namespace headroom
