# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Applies a policy to a model: checkpoints that run the recorded ops again in backward."""
