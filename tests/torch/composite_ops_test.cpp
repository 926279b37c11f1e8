// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// resources/composite_ops.txt is what PyTorch's dispatcher says.
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>

namespace {

/// Overloads that a program does not call: named dimensions, results that are given, old ones.
bool counts(const std::string& overload)
{
    for (const char* part : {"names", "imname", "deprecated"})
        if (overload.find(part) != std::string::npos)
            return false;
    return !overload.ends_with("out");
}

TEST(CompositeOps, AreThoseOfTheDispatcher)
{
    std::map<std::string, bool> composite;
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
        if (name.getNamespace() != "aten" || !counts(name.overload_name))
            continue;
        const auto op = dispatcher.findOp(name);
        const bool one = op && op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)
            && !op->hasKernelForDispatchKey(c10::DispatchKey::CPU);
        const auto [known, isNew] = composite.try_emplace(name.name.substr(6), one);
        known->second = known->second && one;
    }
    std::set<std::string> expected;
    for (const auto& [name, is] : composite)
        if (is)
            expected.insert(name);
    expected.erase("_fused_rms_norm"); // CUDA's half of libtorch, which is not loaded here, has a kernel of it
    std::set<std::string> listed;
    std::ifstream file(HEADROOM_SOURCE_DIR "/resources/composite_ops.txt");
    for (std::string line; std::getline(file, line);)
        if (!line.empty() && line.front() != '#')
            listed.insert(line);
    for (const std::string& name : listed)
        EXPECT_TRUE(expected.contains(name)) << name << " is listed";
    for (const std::string& name : expected)
        EXPECT_TRUE(listed.contains(name)) << name << " is not listed";
}

} // namespace
