// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/exported_source.h"

namespace headroom {

Result<std::unique_ptr<ModelSource>> openExportedProgram(const ModelRequest& request)
{
    return badInput(request.name + ": this version does not run .pt2 files");
}

} // namespace headroom
