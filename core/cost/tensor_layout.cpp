// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/tensor_layout.h"

#include <algorithm>
#include <functional>

namespace headroom {

double elements(const TensorShape& tensor)
{
    double count = 1;
    for (std::size_t i = 0; i < tensor.sizes.size(); ++i)
        if (i >= tensor.strides.size() || tensor.strides[i] != 0)
            count *= static_cast<double>(tensor.sizes[i]);
    return count;
}

double sizeAt(const TensorShape& tensor, std::ptrdiff_t dimension)
{
    const auto rank = static_cast<std::ptrdiff_t>(tensor.sizes.size());
    const std::ptrdiff_t place = dimension < 0 ? rank + dimension : dimension;
    return place >= 0 && place < rank ? static_cast<double>(tensor.sizes[static_cast<std::size_t>(place)]) : 1;
}

std::vector<std::size_t> layoutOf(const TensorShape& tensor)
{
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < std::min(tensor.sizes.size(), tensor.strides.size()); ++i)
        if (tensor.sizes[i] > 1 && tensor.strides[i] != 0)
            order.push_back(i);
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return tensor.strides[i]; });
    return order;
}

bool isDense(const TensorShape& tensor)
{
    double expected = 1; // a double, so that sizes of a damaged file do not overflow
    auto order = layoutOf(tensor);
    for (auto i = order.rbegin(); i != order.rend(); ++i) {
        if (static_cast<double>(tensor.strides[*i]) != expected)
            return false;
        expected *= static_cast<double>(tensor.sizes[*i]);
    }
    return true;
}

bool isChannelsLast(const TensorShape& image)
{
    const std::size_t rank = image.sizes.size();
    if (rank < 4 || image.strides.size() != rank || image.strides[1] == 0)
        return false;
    double least = 0; // a double, so that sizes of a damaged file do not overflow
    const auto follows = [&](std::size_t d) {
        const auto stride = static_cast<double>(image.strides[d]);
        const bool isOutside = stride >= least;
        least = stride * static_cast<double>(std::max<std::int64_t>(image.sizes[d], 1));
        return isOutside;
    };
    bool isLast = follows(1);
    for (std::size_t d = rank - 1; d > 1; --d)
        isLast = isLast && follows(d);
    return isLast && least != static_cast<double>(image.strides[1]) && follows(0);
}

} // namespace headroom
