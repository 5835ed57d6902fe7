#!/usr/bin/env python3
"""A kernel to be judged: f32 multiply in Python, which has f64 only.

    kquant gen f32_multiply | samples/multiply.py | kquant verify f32_multiply
"""
import struct
import sys


def number(bits):
    return struct.unpack('<f', struct.pack('<I', bits))[0]


def rounded(product):
    try:
        bits = struct.unpack('<I', struct.pack('<f', product))[0]
    except OverflowError:
        bits = 0x7F800000 if product > 0 else 0xFF800000
    return bits if product == product else 0x7FC00000


for line in sys.stdin:
    a, b = (int(field, 16) for field in line.split())
    # 53 bits hold a product of two times 24, so that this rounds once.
    print(f'{a:08x} {b:08x} {rounded(number(a) * number(b)):08x}')
