// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/TensorBase.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace headroom {

/// The owning pointer of a node of autograd's graph: std::shared_ptr, and c10::intrusive_ptr from torch 2.13 on.
using NodePtr = std::remove_cvref_t<decltype(std::declval<const at::TensorBase&>().grad_fn())>;

template <typename Owner>
struct WeakOf;
template <typename Node>
struct WeakOf<std::shared_ptr<Node>>
{
    using Type = std::weak_ptr<Node>;
};
template <typename Node>
struct WeakOf<c10::intrusive_ptr<Node>>
{
    using Type = c10::weak_intrusive_ptr<Node>;
};
/// The weak pointer of a node of autograd's graph.
using WeakNodePtr = WeakOf<NodePtr>::Type;

} // namespace headroom
