// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Generator.h>

#include <memory>

namespace headroom::sim {

/// A generator that keeps a seed and an offset as CUDA's does; nothing is ever drawn from it.
class SimulatedGenerator final : public c10::GeneratorImpl
{
public:
    SimulatedGenerator();

    void set_current_seed(std::uint64_t seed) override;
    void set_offset(std::uint64_t offset) override { state_->offset = offset; }
    std::uint64_t get_offset() const override { return state_->offset; }
    std::uint64_t current_seed() const override { return state_->seed; }
    /// Sets and returns a new non-deterministic seed.
    std::uint64_t seed() override;
    void set_state(const c10::TensorImpl& state) override;
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
    /// Both share one state from then on: compiled graphs with checkpoints swap generators so.
    void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override;
    c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

private:
    struct State
    {
        std::uint64_t seed = c10::default_rng_seed_val;
        std::uint64_t offset = 0;
    };

    SimulatedGenerator* clone_impl() const override;

    std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// The device's default generator, for programs that pass none of their own.
const at::Generator& defaultGenerator();

} // namespace headroom::sim
