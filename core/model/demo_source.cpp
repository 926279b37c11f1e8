// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/demo_source.h"

#include "core/model/source.h"

#include <ATen/ops/empty.h>

namespace headroom::demo {

ModuleBuilder::ModuleBuilder(at::Device device, at::ScalarType dtype)
    : options_(at::TensorOptions(device).dtype(dtype))
{
}

ModuleId ModuleBuilder::root(std::string_view type)
{
    tree_.modules.push_back({std::string(type), std::string(type), ModuleId()});
    return ModuleId(0);
}

ModuleId ModuleBuilder::child(ModuleId parent, std::string_view name, std::string_view type)
{
    const auto id = static_cast<std::uint32_t>(tree_.modules.size());
    tree_.modules.push_back({tree_.modules[parent.value].fqn + "." + std::string(name), std::string(type), parent});
    return ModuleId(id);
}

at::Tensor ModuleBuilder::parameter(ModuleId owner, std::string_view name, at::IntArrayRef sizes, Initial initial)
{
    return create(owner, name, sizes, options_.dtype().toScalarType(), initial, Category::parameter);
}

at::Tensor ModuleBuilder::buffer(ModuleId owner, std::string_view name, at::IntArrayRef sizes, Initial initial)
{
    return create(owner, name, sizes, options_.dtype().toScalarType(), initial, Category::buffer);
}

at::Tensor ModuleBuilder::counter(ModuleId owner, std::string_view name)
{
    return create(owner, name, {}, at::kLong, Initial::zero(), Category::buffer);
}

void ModuleBuilder::share(ModuleId owner, std::string_view name, const at::Tensor& parameter)
{
    tree_.registered.push_back({owner, std::string(name), parameter, Category::parameter});
}

at::Tensor ModuleBuilder::create(ModuleId owner, std::string_view name, at::IntArrayRef sizes, at::ScalarType dtype,
                                 Initial initial, Category category)
{
    at::Tensor tensor = at::empty(sizes, options_.dtype(dtype));
    if (computes(tensor.device())) {
        switch (initial.distribution) {
        case Initial::Distribution::zero:
            tensor.zero_();
            break;
        case Initial::Distribution::one:
            tensor.fill_(1);
            break;
        case Initial::Distribution::normal:
            tensor.normal_(0, initial.scale);
            break;
        case Initial::Distribution::uniform:
            tensor.uniform_(-initial.scale, initial.scale);
            break;
        }
    }
    tensor.set_requires_grad(category == Category::parameter);
    tree_.registered.push_back({owner, std::string(name), tensor, category});
    return tensor;
}

} // namespace headroom::demo
