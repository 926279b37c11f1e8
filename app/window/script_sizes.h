// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <QStringList>

#include <vector>

namespace headroom {

/// The sizes at which the step can be recorded again: a model's batch and sequence, or scriptSizes(). Empty: no command
/// is known.
std::vector<StepInfo::Dimension> sizesOf(const StepTrace& trace);

/// The whole numbers among the arguments of the script that the step was recorded from: `--batch-size 64`,
/// `--batch-size=64` or `batch_size=64`. Arguments that name a batch come first, then those that name a sequence; there
/// are three at most. An argument that is given twice is left out.
std::vector<StepInfo::Dimension> scriptSizes(const StepTrace& trace);

/// The arguments of `torch-headroom record` with another value of a script's argument, which scriptSizes() named.
QStringList withScriptSize(const QStringList& arguments, const QString& name, const QString& value);

} // namespace headroom
