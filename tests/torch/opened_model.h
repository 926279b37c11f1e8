// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/source.h"

#include <gtest/gtest.h>

namespace headroom {

/// The model; a failure of the test and null where it cannot be opened.
inline std::unique_ptr<ModelSource> open(const ModelRequest& request)
{
    Result<std::unique_ptr<ModelSource>> source = openModel(request);
    EXPECT_TRUE(source) << (source ? "" : source.error().message);
    return source ? std::move(*source) : nullptr;
}

/// Why a model is refused as bad input; a failure of the test and empty where it is not.
inline std::string errorOf(const ModelRequest& request)
{
    const auto source = openModel(request);
    EXPECT_FALSE(source);
    if (source)
        return {};
    EXPECT_EQ(source.error().kind, ErrorKind::badInput);
    return source.error().message;
}

} // namespace headroom
