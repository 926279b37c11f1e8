# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records, plans and applies in one call: torch_headroom.run and torch_headroom.auto_checkpoint()."""
