// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/memory_host.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace headroom {
namespace {

/// Passes each allocation of the CPU's own allocator through the host.
class HostedCpuAllocator final : public c10::Allocator
{
public:
    c10::DataPtr allocate(std::size_t bytes) override
    {
        return host_->take(inner_->allocate(std::max<std::size_t>(bytes, 1)), bytes);
    }
    c10::DeleterFnPtr raw_deleter() const override { return host_->deleter(); }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

    void setHost(MemoryHost* host)
    {
        if (host && !installed_) {
            inner_ = c10::GetAllocator(c10::kCPU);
            c10::SetAllocator(c10::kCPU, this);
        } else if (!host && installed_) {
            c10::SetAllocator(c10::kCPU, inner_);
        }
        installed_ = host != nullptr;
        if (host)
            host_ = host; // kept after setHost(nullptr): storages remember this allocator and may still use it
    }

private:
    c10::Allocator* inner_ = nullptr;
    MemoryHost* host_ = nullptr;
    bool installed_ = false;
};

} // namespace

void setCpuHost(MemoryHost* host)
{
    static auto* const allocator = new HostedCpuAllocator; // never destroyed: storages remember it
    allocator->setHost(host);
}

} // namespace headroom
