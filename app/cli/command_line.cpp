// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command_line.h"

#include "app/window/run_window.h"

#include <CLI/CLI.hpp>

#include <iostream>

namespace headroom {

int runCommandLine(int argc, char** argv, const OpenWindow& openWindow)
{
    CLI::App app("Plan the GPU memory of PyTorch training to the byte.", "headroom");
    app.set_version_flag("--version", "headroom " HEADROOM_VERSION);
    std::string file;
    app.add_option("FILE", file, "Step file to open in the window");
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp& help) {
        return app.exit(help, std::cout, std::cerr);
    } catch (const CLI::CallForVersion& version) {
        return app.exit(version, std::cout, std::cerr);
    } catch (const CLI::ParseError& error) {
        std::cerr << "headroom: " << error.what() << "; `headroom --help` lists what is expected\n";
        return 2;
    }
    WindowOptions options;
    options.file = QString::fromStdString(file);
    return openWindow(argc, argv, options);
}

} // namespace headroom
