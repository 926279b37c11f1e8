// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command_line.h"
#include "app/window/run_window.h"

int main(int argc, char** argv)
{
    return headroom::runCommandLine(argc, argv, headroom::runWindow);
}
