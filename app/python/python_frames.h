// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/python/python_api.h"

/// Records from now on which line of the program runs each op and allocates each block. Frames of files that begin with
/// `ownFolder` are left out, and so are frames of Python's own frozen modules.
HEADROOM_PYTHON_API void headroom_record_source_lines(const char* ownFolder);
