# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes PNG files of a program's window small, and keeps texts in the files.

A window has few colours, and between them those of smooth edges. The most frequent ones are kept exactly, and those that
would change most, as that of a small mark. Each other colour becomes the nearest one that is kept. Reads what Qt writes: 8
bits a channel, not interlaced.
"""

import collections
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {2: 3, 6: 4}  # by colour type: RGB, RGBA


def chunks(data):
    place = len(SIGNATURE)
    while place < len(data):
        length, kind = struct.unpack_from(">I4s", data, place)
        yield kind, data[place + 8 : place + 8 + length]
        place += 12 + length


def unfiltered(raw, width, height, channels):
    """Rows of bytes."""
    rows, before = [], bytearray(width * channels)
    for y in range(height):
        start = y * (width * channels + 1)
        kind, row = raw[start], bytearray(raw[start + 1 : start + 1 + width * channels])
        for i in range(len(row) if kind else 0):
            left = row[i - channels] if i >= channels else 0
            up, corner = before[i], before[i - channels] if i >= channels else 0
            if kind == 1:
                guess = left
            elif kind == 2:
                guess = up
            elif kind == 3:
                guess = (left + up) // 2
            else:
                sides = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
                guess = (left, up, corner)[sides.index(min(sides))]
            row[i] = (row[i] + guess) & 255
        rows.append(row)
        before = row
    return rows


def read(data):
    """Width, height and the colour of each pixel."""
    header, packed = None, b""
    for kind, content in chunks(data):
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", content)
        elif kind == b"IDAT":
            packed += content
    width, height, bits, colour_type, _, _, interlaced = header
    if bits != 8 or colour_type not in CHANNELS or interlaced:
        raise ValueError("expected 8 bits a channel, RGB or RGBA, not interlaced")
    channels = CHANNELS[colour_type]
    pixels = []
    for row in unfiltered(zlib.decompress(packed), width, height, channels):
        pixels.append([bytes(row[i : i + 3]) for i in range(0, len(row), channels)])
    return width, height, pixels


def distance(colour, other):
    return sum((a - b) ** 2 for a, b in zip(colour, other))


def kept(counts, most=256):
    """The colours that are kept, at most `most`, of pixels by colour: half of them the most frequent ones. Each of the
    others is the colour whose pixels would change most with those before."""
    palette = [colour for colour, _ in counts.most_common(most // 2)]
    change = {colour: min(distance(colour, other) for other in palette) for colour in counts}
    while len(palette) < min(most, len(counts)):
        palette.append(max(counts, key=lambda colour: counts[colour] * change[colour]))
        for colour in counts:
            change[colour] = min(change[colour], distance(colour, palette[-1]))
    return palette


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def size(data):
    """Width and height in pixels."""
    return struct.unpack_from(">II", dict(chunks(data))[b"IHDR"])


def text(data, keyword):
    """The content of a tEXt chunk; None: the file has none with this keyword."""
    for kind, content in chunks(data):
        found, _, value = content.partition(b"\0")
        if kind == b"tEXt" and found == keyword:
            return value.decode()
    return None


def small(data, texts):
    """The same picture with 256 colours. `texts`: contents of tEXt chunks by keyword, as bytes."""
    width, height, pixels = read(data)
    counts = collections.Counter(colour for row in pixels for colour in row)
    palette = kept(counts)
    index = {colour: min(range(len(palette)), key=lambda i: distance(colour, palette[i])) for colour in counts}
    raw = b"".join(b"\0" + bytes(index[colour] for colour in row) for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = [chunk(b"IHDR", header), *(chunk(b"tEXt", key + b"\0" + value) for key, value in texts.items()),
             chunk(b"PLTE", b"".join(palette)), chunk(b"IDAT", zlib.compress(raw, 9))]
    return SIGNATURE + b"".join(parts) + chunk(b"IEND", b"")
