#!/usr/bin/env python3
"""Prints what an event file says, one line per value: an independent reader of the format.

    read_events.py events.out.tfevents.1700000000.machine.1.0

Standard library only, and nothing shared with the C++ code. Any damage is an error (exit code 1).
    version brain.Event:2
    session_start 100
    scalar 100 loss 0.25
    text 100 checkpoint_path 'model.ckpt-100'
"""
import struct
import sys

POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        (length_crc,) = struct.unpack_from("<I", data, at + 8)
        if length_crc != masked(data[at : at + 8]):
            raise ValueError("byte %d: wrong checksum of a length" % at)
        message = data[at + 12 : at + 12 + length]
        (message_crc,) = struct.unpack_from("<I", data, at + 12 + length)
        if message_crc != masked(message):
            raise ValueError("byte %d: wrong checksum of a message" % at)
        yield message
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """Pairs of field number and value: an int for numbers of variable length, else bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            length = {1: 8, 5: 4}.get(kind)
            if kind == 2:
                length, at = varint(data, at)
            if length is None or at + length > len(data):
                raise ValueError("no protocol-buffer message")
            value = data[at : at + length]
            at += length
        yield key >> 3, value


def print_value(step, message):
    value = dict(fields(message))
    tag = value[1].decode()
    if 4 in value:
        image = dict(fields(value[4]))
        print("image", step, tag, "%dx%d" % (image[2], image[1]), len(image[4]), "bytes")
        return
    if 5 in value:
        spread = dict(fields(value[5]))
        low, high, count, total, squares = (struct.unpack("<d", spread[i])[0] for i in range(1, 6))
        limits, counts = (struct.unpack("<%dd" % (len(spread[i]) // 8), spread[i]) for i in (6, 7))
        if len(limits) != len(counts) or sum(counts) != count or limits[-1] != high or low > high:
            raise ValueError("a histogram that contradicts itself")
        print("histogram", step, tag, low, high, total, squares, list(zip(limits, counts)))
        return
    plugin = dict(fields(dict(fields(value[9]))[1]))[1].decode()
    if 2 in value and plugin == "scalars":
        print("scalar", step, tag, repr(struct.unpack("<f", value[2])[0]))
    elif 8 in value and plugin == "text":
        tensor = dict(fields(value[8]))
        dimension = dict(fields(dict(fields(tensor[2]))[2]))
        if tensor[1] != 7 or dimension[1] != 1:
            raise ValueError("a text that is no tensor of one string")
        print("text", step, tag, repr(tensor[8].decode()))
    else:
        print("other", step, tag)


def main(path):
    with open(path, "rb") as file:
        data = file.read()
    for message in records(data):
        event = dict(fields(message))
        step = event.get(2, 0)
        if 3 in event:
            print("version", event[3].decode())
        if 7 in event and dict(fields(event[7])).get(1) == 1:
            print("session_start", step)
        for number, value in fields(event.get(5, b"")):
            if number == 1:
                print_value(step, value)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: read_events.py <event file>")
    main(sys.argv[1])
