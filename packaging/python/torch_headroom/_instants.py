# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moments of a step: HeadroomInstant in app/python/recording_api.h."""

(
    FORWARD_END,
    BACKWARD_END,
    OPTIMIZER_BEGIN,
    OPTIMIZER_END,
    ZERO_GRAD_BEGIN,
    ZERO_GRAD_END,
    BACKWARD_GRAPH_BEGIN,
    BACKWARD_GRAPH_END,
    OWN_UPDATE_BEGIN,
    OWN_UPDATE_END,
    RECOMPUTATION_BEGIN,
    RECOMPUTATION_END,
    COMPILATION_BEGIN,
    COMPILATION_END,
    SAVES_LEFT,
    COMPILED_BACKWARD_BEGIN,
    COMPILED_BACKWARD_END,
) = range(17)
