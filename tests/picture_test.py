#!/usr/bin/python3
"""usage: picture_test.py PICTURE.png COMMAND [ARG...]

Runs COMMAND -o FILE: it must succeed, and FILE be a valid PNG with the pixels of PICTURE.png.
"""
import os
import struct
import subprocess
import sys
import tempfile
import zlib


def pixels(path):
    """Width, height and RGB lines of a PNG whose checksums and structure are right."""
    with open(path, 'rb') as file:
        data = file.read()
    assert data[:8] == b'\x89PNG\r\n\x1a\n', path
    at, packed, kinds = 8, b'', []
    while at < len(data):
        size, kind = struct.unpack_from('>I4s', data, at)
        body = data[at + 8:at + 8 + size]
        checksum, = struct.unpack_from('>I', data, at + 8 + size)
        assert checksum == zlib.crc32(kind + body), f'{path}: checksum of {kind}'
        kinds.append(kind)
        if kind == b'IHDR':
            width, height, *rest = struct.unpack('>IIBBBBB', body)
            assert rest == [8, 2, 0, 0, 0], f'{path}: is no plain RGB: {rest}'
        elif kind == b'IDAT':
            packed += body
        at += 12 + size
    assert kinds[0] == b'IHDR' and kinds[-1] == b'IEND' and at == len(data), f'{path}: {kinds}'
    raw = zlib.decompress(packed)  # checks Adler-32
    step = 1 + 3 * width
    assert len(raw) == height * step, f'{path}: {len(raw)} bytes'
    lines, above = [], bytes(step - 1)
    for y in range(height):
        above = unfilter(raw[y * step], raw[y * step + 1:(y + 1) * step], above)
        lines.append(above)
    return width, height, lines


def unfilter(kind, line, above):
    out = bytearray()
    for i, value in enumerate(line):
        left, corner = (out[i - 3], above[i - 3]) if i >= 3 else (0, 0)
        up = above[i]
        guess = left + up - corner
        paeth = min((abs(guess - left), 0, left), (abs(guess - up), 1, up),
                    (abs(guess - corner), 2, corner))[2]
        out.append((value + (0, left, up, (left + up) // 2, paeth)[kind]) & 255)
    return bytes(out)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'drawn.png')
        status = subprocess.run(sys.argv[2:] + ['-o', path], check=False).returncode
        if status != 0:
            sys.exit(f'picture_test: exit {status} of {sys.argv[2]}')
        expected, drawn = pixels(sys.argv[1]), pixels(path)
    if drawn != expected:
        sys.exit('picture_test: the picture is not that of ' + sys.argv[1])
    print(f'picture_test: {drawn[0]} x {drawn[1]} pixels, all as they should be')


if __name__ == '__main__':
    main()
