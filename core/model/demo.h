// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/source.h"

namespace headroom::demo {

/// The GPT-like Transformer of PyTorch's own tests (torch.testing._internal.distributed._tensor.common_dtensor), with
/// its ModelArgs as settings.
Result<std::unique_ptr<ModelSource>> openTransformer(const ModelRequest& request);

/// Blocks of Linear, ReLU, Linear on (batch, seq, dim).
Result<std::unique_ptr<ModelSource>> openMlp(const ModelRequest& request);

/// torchvision's ResNet-18, -34 and -50 on square RGB images.
Result<std::unique_ptr<ModelSource>> openResnet(const ModelRequest& request);

} // namespace headroom::demo
