// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>

namespace headroom::sim {

/// Returns a view of `base` with the layout of `like`. It has the dispatch keys of its base, as PyTorch's views have:
/// what torch.inference_mode makes of a normal tensor stays normal.
inline at::Tensor viewOf(const at::Tensor& base, const at::Tensor& like)
{
    using c10::DispatchKey;
    const auto keys = base.key_set() - c10::DispatchKeySet({DispatchKey::Conjugate, DispatchKey::Negative});
    at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(base.storage()),
                                                               keys, like.dtype());
    view.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
    view._set_conj(like.is_conj());
    view._set_neg(like.is_neg());
    return view;
}

} // namespace headroom::sim
