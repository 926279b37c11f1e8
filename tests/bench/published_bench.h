// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/time_model.h"
#include "tests/core/signature_values.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace headroom {

using Json = nlohmann::json;
namespace fs = std::filesystem;

inline std::string textOf(const fs::path& file)
{
    std::ifstream in(file);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

/// Errors of a group of figures; `weight` of a figure is what counts of it.
class Errors
{
public:
    void add(double predicted, double published, double weight = 1)
    {
        const double error = std::abs(predicted / published - 1);
        sum_ += weight * error;
        weights_ += weight;
        worst_ = std::max(worst_, error);
        bias_ += weight * std::log(predicted / published);
        ++count_;
    }
    void print(const std::string& name) const
    {
        std::printf("%-44s %4d figures, mean error %5.1f %%, worst %6.1f %%, mean ratio %.3f\n", name.c_str(), count_,
                    100 * sum_ / weights_, 100 * worst_, std::exp(bias_ / weights_));
    }

private:
    double sum_ = 0, weights_ = 0, worst_ = 0, bias_ = 0;
    int count_ = 0;
};

struct Bench
{
    const KernelModel& model;
    bool rows = false;

    double us(std::string_view op, const OpSignature& signature, const DeviceSpec& card) const
    {
        return 1e3 * model.ms(workOf(op, signature, 0, 0), card);
    }

    void row(const std::string& name, double predicted, double published) const
    {
        if (rows)
            std::printf("  %-64s %10.2f us, published %10.2f us, ratio %.2f\n", name.c_str(), predicted, published,
                        predicted / published);
    }

    /// Kernel rates; a picture of them is written where `picture` names a file.
    void rates(const fs::path& file, const fs::path& picture) const;
    void trace(const fs::path& file) const;
    void steps(const fs::path& folder, const fs::path& throughput) const;
};

} // namespace headroom
