// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/source.h"

#include <memory>

namespace headroom {

/// Opens a torch.export archive (.pt2).
Result<std::unique_ptr<ModelSource>> openExportedProgram(const ModelRequest& request);

} // namespace headroom
