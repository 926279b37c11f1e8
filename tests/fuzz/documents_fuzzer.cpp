// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/policy.h"
#include "core/sac/module_info.h"
#include "core/sac/sac_stats.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

using namespace headroom;

namespace {

/// The file that a policy is read from.
class MemoryFile
{
public:
    MemoryFile()
        : file_(memfd_create("policy.json", 0))
    {
        if (file_ < 0)
            std::abort();
    }
    ~MemoryFile() { close(file_); }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;

    std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }
    void hold(std::string_view content) const
    {
        if (ftruncate(file_, 0) != 0 || pwrite(file_, content.data(), content.size(), 0) < 0)
            std::abort();
    }

private:
    int file_;
};

} // namespace

/// Any text is a ModuleInfo document, SACStats, a policy, or an error; a policy that was read can be written, and is
/// the same when it is read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    static const MemoryFile file;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    (void)parseModuleInfo(text, "modules.json");
    (void)parseSacStats(text, "stats.json");
    file.hold(text);
    const auto policy = readPolicy(file.path());
    if (!policy)
        return 0;
    const std::string written = toJson(*policy);
    file.hold(written);
    const auto again = readPolicy(file.path());
    if (!again || toJson(*again) != written)
        std::abort();
    return 0;
}
