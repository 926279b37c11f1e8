// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/joint/ops_plan.h"

#include <filesystem>
#include <vector>

namespace headroom {

/// A plan for ops as a document, so that another program can follow it: what is saved, by the storages of the step that
/// was planned. `torch-headroom ops-plan --json` prints one, with more beside it.
struct SavedOps
{
    double fraction = 1;
    std::vector<StorageId> saved; ///< ascending
};

Status writeOpsPlan(const StepTrace& trace, const OpsPlan& plan, const std::filesystem::path& file);

/// Errors: no such document; a step other than `trace` was planned.
Result<SavedOps> readOpsPlan(const std::filesystem::path& file, const StepTrace& trace);

} // namespace headroom
