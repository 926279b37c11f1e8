// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/pictures.h"
#include "app/recording/record_request.h"
#include "app/window/run_window.h"
#include "core/base/bytes.h"
#include "core/base/try.h"

#include <CLI/CLI.hpp>

#include <array>

namespace headroom::cli {

namespace {

struct ScreenshotArguments
{
    std::string stepFile;
    std::string output;
    std::string size = "1600x1000";
    std::string theme;
    std::string budget;
    std::string card;
    std::string module;
    TimeChoice times;
    std::string measured;
    std::string profileStep;
    SnapshotArguments snapshot;
    bool ops = false;
    bool offload = false;
};

Result<QSize> parseSize(const std::string& text)
{
    const std::size_t cross = text.find('x');
    if (cross != std::string::npos) {
        const Result<int> width = parseInteger("--size", text.substr(0, cross), 320, 16'384);
        const Result<int> height = parseInteger("--size", text.substr(cross + 1), 240, 16'384);
        if (width && height)
            return QSize(*width, *height);
    }
    return badInput("--size `" + text + "`: expected WIDTHxHEIGHT in pixels, as 1600x1000");
}

Result<int> run(const ScreenshotArguments& arguments, const OpenWindow& openWindow)
{
    WindowOptions options;
    ASSIGN_OR_RETURN(options.size, parseSize(arguments.size));
    if (!arguments.theme.empty() && arguments.theme != "light" && arguments.theme != "dark")
        return badInput("--theme `" + arguments.theme + "`: expected light or dark");
    options.theme = QString::fromStdString(arguments.theme);
    if (!arguments.budget.empty()) {
        const Result<Bytes> budget = parseBytes(arguments.budget);
        if (!budget)
            return badInput("--budget " + budget.error().message);
        options.budget = *budget;
    }
    if (!arguments.card.empty() && !findDeviceSpec(arguments.card) && !parseBytes(arguments.card))
        return badInput("--card `" + arguments.card + "`: expected the name of a GPU or a size");
    options.card = arguments.card;
    ASSIGN_OR_RETURN(options.file, qtName(arguments.stepFile));
    if (sourceKind(options.file) != SourceKind::step)
        return badInput(arguments.stepFile
                        + " is no recorded step; `torch-headroom record` records a step of a model or a script");
    ASSIGN_OR_RETURN(options.screenshot, qtName(arguments.output));
    if (!options.screenshot.endsWith(QLatin1String(".png"), Qt::CaseInsensitive))
        return badInput(arguments.output + ": the window's picture is a PNG file: expected a name with .png");
    options.ops = arguments.ops;
    options.offload = arguments.offload;
    options.times = arguments.times;
    ASSIGN_OR_RETURN(options.part,
                     importRequest(arguments.snapshot, {arguments.stepFile})); // a dialog could not be answered
    ASSIGN_OR_RETURN(options.measured, qtName(arguments.measured));
    ASSIGN_OR_RETURN(options.profile, profileRequest(arguments.profileStep, {arguments.stepFile, arguments.measured}));
    options.select = QString::fromStdString(arguments.module);
    if (!arguments.module.empty())
        options.checkStep = [fqn = arguments.module](const StepTrace& step) -> Status {
            RETURN_IF_ERROR(findModule(step, fqn));
            return {};
        };
    hideDesktopRemarks();
    int count = 1;
    std::string name = "torch-headroom";
    std::array<char*, 2> argv{name.data(), nullptr};
    return openWindow(count, argv.data(), options);
}

} // namespace

void addScreenshot(CLI::App& program, Action& chosen, const OpenWindow& openWindow)
{
    const auto arguments = std::make_shared<ScreenshotArguments>();
    CLI::App* command
        = addCommand(program, "screenshot", "A picture of the window with a step open, without a display");
    command->add_option("step", arguments->stepFile, "Step file")->required();
    command->add_option("output", arguments->output, "File to write: .png")->required();
    command->add_option("--size", arguments->size, "Of the window in pixels (default 1600x1000)")->type_name("WxH");
    command->add_option("--theme", arguments->theme, "light or dark (default: the desktop's)");
    command->add_option("--budget", arguments->budget, "Plan for this budget")->type_name("SIZE");
    command->add_option("--card", arguments->card, "Card for training: a GPU's name, or a size")
        ->transform(gpuName)
        ->type_name("NAME|SIZE");
    addTimeArguments(*command, arguments->times);
    addSnapshotArguments(*command, arguments->snapshot);
    addProfileArgument(*command, arguments->profileStep);
    command->add_option("--measured", arguments->measured, "Lay this measured step over the prediction")
        ->type_name("FILE");
    command->add_flag("--ops", arguments->ops, "Plan single ops of the whole step, not modules");
    command->add_flag("--offload", arguments->offload, "Saved tensors may also go to pinned host memory");
    command->add_option("--select", arguments->module, "Module to select")->type_name("FQN");
    command->callback([=, &chosen] { chosen = [=] { return run(*arguments, openWindow); }; });
}

} // namespace headroom::cli
