// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom {

/// Reports every op that this thread calls to the active recording while it lives: below autograd and above all
/// backends, so that op names are those of PyTorch's dispatch modes. Autograd's threads work with the keys of the
/// thread that calls backward, so theirs are reported too.
class Interception
{
public:
    Interception();
    ~Interception();
    Interception(const Interception&) = delete;
    Interception& operator=(const Interception&) = delete;

private:
    bool outer_; ///< interception was on before
};

} // namespace headroom
