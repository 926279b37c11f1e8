// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/exported/graph_program.h"

#include <map>
#include <string>
#include <vector>

namespace headroom::exported {

/// The exception for a fault of the graph; compileGraph() converts it to an Error.
struct Uncompilable
{
    std::string message;
};

/// Makes the operands of operators from arguments of the graph. Throws Uncompilable.
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
    /// Makes an operand of any type: a size, or an argument of a higher-order operator.
    Operand makePlain(const Argument& argument, const Names& names) const;

    /// Returns the device that replaces a device of the file.
    at::DeviceType deviceFor(at::DeviceType inFile) const;

private:
    Operand list(const Argument& argument, const c10::Type& element, const Names& names) const;
    c10::IValue constantFor(const c10::IValue& constant, const c10::Type& formal) const;

    at::Device device_;
    at::DeviceType exportedOn_;
};

} // namespace headroom::exported
