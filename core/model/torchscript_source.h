// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/source.h"

namespace headroom {

/// Opens a file of torch.jit.save (.pt), run by TorchScript's own interpreter, which frees a value after its last use.
Result<std::unique_ptr<ModelSource>> openTorchScript(const ModelRequest& request);

/// Refuses a file of torch.save, which holds Python objects and no code. Always returns an error, which says what to
/// save instead.
Result<std::unique_ptr<ModelSource>> refusePickledModel(const ModelRequest& request);

} // namespace headroom
