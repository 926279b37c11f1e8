// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/profile/import.h"

#include "core/base/try.h"
#include "core/profile/profile_reader.h"
#include "core/profile/profile_step.h"
#include "core/profile/profile_windows.h"
#include "core/snapshot/import.h"

#include <algorithm>

namespace headroom {

Result<StepTracePtr> importProfile(const Profile& profile, const std::string& name, const ProfileRequest& request)
{
    const std::vector<ProfileWindow> windows = profileWindows(profile);
    ASSIGN_OR_RETURN(ProfileWindow window, chooseWindow(windows, request.step, name));
    if (request.everyStep) {
        const auto first = std::ranges::find(windows, true, &ProfileWindow::whole);
        window.begin = std::min(window.begin, first == windows.end() ? window.begin : first->begin);
    }
    return stepOf(profile, window, name, request.gpu);
}

Result<StepTracePtr> importProfile(const std::filesystem::path& path, const ProfileRequest& request)
{
    ASSIGN_OR_RETURN(const Profile profile, readProfile(path));
    return importProfile(profile, path.filename().string(), request);
}

Result<StepTracePtr> readMeasured(const std::filesystem::path& path, const ProfileRequest& request)
{
    return isProfileFile(path) ? importProfile(path, request) : readStepOrSnapshot(path);
}

} // namespace headroom
