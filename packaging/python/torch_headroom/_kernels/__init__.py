# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stubs of kernels from outside PyTorch: results of the right sizes, and an op of the step for each launch."""
