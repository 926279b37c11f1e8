// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/exported/graph_program.h"

#include <map>
#include <string>
#include <vector>

namespace headroom::exported {

/// A fault of the graph: becomes the sentence of compileGraph().
struct Uncompilable
{
    std::string message;
};

/// What an argument becomes for an operator that takes a `formal` there. Throws Uncompilable.
class OperandMaker
{
public:
    using Names = std::map<std::string, Slot>;

    OperandMaker(at::Device device, at::DeviceType exportedOn)
        : device_(device)
        , exportedOn_(exportedOn)
    {
    }
    Operand make(const Argument& argument, const c10::Type& formal, const Names& names) const;
    /// Of an argument that no type restricts: a size, or what a higher-order operator is given.
    Operand makePlain(const Argument& argument, const Names& names) const;

    /// The device that stands for the one of the file.
    at::DeviceType deviceFor(at::DeviceType inFile) const;

private:
    Operand list(const Argument& argument, const c10::Type& element, const Names& names) const;
    c10::IValue constantFor(const c10::IValue& constant, const c10::Type& formal) const;

    at::Device device_;
    at::DeviceType exportedOn_;
};

} // namespace headroom::exported
