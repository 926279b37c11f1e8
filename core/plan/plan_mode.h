// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom {

/// The unit of a plan: modules that are checkpointed, or single ops of the whole step.
enum class PlanMode { modules, ops };

} // namespace headroom
