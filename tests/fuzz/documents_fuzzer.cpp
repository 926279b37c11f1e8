// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/calibration.h"
#include "core/cost/collective_model.h"
#include "core/cost/time_model.h"
#include "core/joint/ops_request.h"
#include "core/policy/policy.h"
#include "core/sac/module_info.h"
#include "core/sac/sac_stats.h"
#include "core/trace/step_info_json.h"
#include "tests/core/synthetic_step.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

using namespace headroom;

namespace {

/// A file that a document is read from.
class MemoryFile
{
public:
    MemoryFile()
        : file_(memfd_create("document.json", 0))
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

/// Any text is a document of the kind that `read` reads, or one sentence. A document that was read can be written, and
/// is the same when it is read again.
template <class Read, class Write>
void check(std::string_view text, Read read, Write write)
{
    static const MemoryFile file;
    file.hold(text);
    const auto value = read(text, file.path());
    if (!value) {
        const std::string& sentence = value.error().message;
        if (value.error().kind != ErrorKind::badInput || sentence.find('\n') != std::string::npos)
            std::abort();
        return;
    }
    const std::string written = write(*value);
    file.hold(written);
    const auto again = read(written, file.path());
    if (!again || write(*again) != written)
        std::abort();
}

/// A kind without a writer.
template <class Read>
void check(std::string_view text, Read read)
{
    static const MemoryFile file;
    file.hold(text);
    const auto value = read(text, file.path());
    if (!value && value.error().kind != ErrorKind::badInput)
        std::abort();
}

} // namespace

/// The first byte chooses the kind of document, the others are its text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    if (size == 0)
        return 0;
    static const StepTracePtr step = makeSyntheticStep();
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    using Text = std::string_view;
    using Path = const std::string&;
    switch (data[0]) {
    case 'm':
        check(text, [](Text given, Path) { return parseModuleInfo(given, "modules.json"); });
        break;
    case 's':
        check(text, [](Text given, Path) { return parseSacStats(given, "stats.json"); });
        break;
    case 'p':
        check(
            text, [](Text, Path file) { return readPolicy(file); },
            [](const Policy& policy) { return toJson(policy); });
        break;
    case 'c':
        check(
            text, [](Text given, Path) { return calibrationFromJson(given, "calibration.json"); }, calibrationToJson);
        break;
    case 't':
        check(
            text, [](Text, Path file) { return findTopology(file); }, topologyToJson);
        break;
    case 'k':
        check(text, [](Text given, Path) { return KernelModel::fromJson(given, "kernels.json"); });
        break;
    case 'n':
        check(text, [](Text given, Path) { return readNcclTests(given, "nccl.txt"); });
        break;
    case 'o':
        check(text, [](Text, Path file) { return readOpTimes(file, *step); });
        break;
    case 'l':
        check(text, [](Text, Path file) { return readOpsPlan(file, *step); });
        break;
    default:
        check(
            text, [](Text given, Path) { return stepInfoFromJson(given, "step.hrs"); }, stepInfoToJson);
    }
    return 0;
}
