# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated GPU: torch.cuda without a GPU. This file knows the card that the process simulates."""

_card = None


def simulated_card():
    """Returns the card that this process simulates, as headroom_devices() describes the card; None without
    simulate()."""
    return _card


def set_simulated_card(card):
    """Notes that the process simulates `card`."""
    global _card
    _card = card
