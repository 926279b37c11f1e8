# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records training steps: the options and the process of the command, hooks in torch, the steps of a loop."""
