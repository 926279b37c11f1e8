// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/source.h"

namespace headroom {

/// Opens a torch.export archive (.pt2).
Result<std::unique_ptr<ModelSource>> openExportedProgram(const ModelRequest& request);

/// Opens a file of torch.jit.save (.pt). TorchScript's interpreter runs it and frees a value after its last use.
Result<std::unique_ptr<ModelSource>> openTorchScript(const ModelRequest& request);

namespace demo {

/// Opens the GPT-like Transformer of PyTorch's own tests (torch.testing._internal.distributed._tensor.common_dtensor),
/// with its ModelArgs as settings.
Result<std::unique_ptr<ModelSource>> openTransformer(const ModelRequest& request);

/// Opens blocks of Linear, ReLU and Linear on an input of (batch, seq, dim).
Result<std::unique_ptr<ModelSource>> openMlp(const ModelRequest& request);

/// Opens torchvision's ResNet-18, -34 or -50 on square RGB images.
Result<std::unique_ptr<ModelSource>> openResnet(const ModelRequest& request);

} // namespace demo

} // namespace headroom
