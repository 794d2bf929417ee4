#!/usr/bin/env python3
"""Pictures and arrays: the bytes that Pillow, OpenCV and NumPy read from a file, and Troupe's.

Usage: check_files.py PRINT_VALUES
Makes pictures of every kind and arrays of every type and order, reads each with its peers
(`./dev test` installs them in build/venv/files, whose python3 is to start this) and with Troupe,
and prints a table of the largest differences. Expected of a picture: Pillow's bytes, by
ImageOps.exif_transpose(image).convert("RGB") or "L"; in colours OpenCV's, too, by imread().
Ends with 0 when all are as expected, with 1 when not, with 77 when the peers are not here.
"""
import io
import pathlib
import struct
import subprocess
import sys
import tempfile
import warnings
import zlib

try:
    import cv2
    import numpy
    from PIL import Image, ImageOps
except ImportError as error:
    print(f"check_files: {error}", file=sys.stderr)
    sys.exit(77)

# A JPEG's cosine transform is not the same in every library.
TOLERANCE = {"png": 0, "jpeg": 2}
# Pillow keeps 16 bits of grey, and cuts off at 255 what becomes of them.
PILLOW_CLIPS = "png grey 16"
SIZE = 13, 11  # width, height: no multiple of a block of 8


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(rows, bits, colour_type, *extra, interlaced=False):
    """A PNG file of rows that are packed already."""
    width, height = SIZE
    head = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, int(interlaced))
    rows = b"".join(b"\0" + row for row in rows)
    body = b"".join(chunk(kind, data) for kind, data in extra)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + body
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def ramp(channels, most=256):
    """Values all over the range, [height, width, channels]."""
    width, height = SIZE
    values = numpy.arange(width * height * channels, dtype=numpy.uint64) * 0x9E3779B1 >> 7
    return (values % most).reshape(height, width, channels)


def rows_of(values, bits):
    if bits == 16:
        return [row.astype(">u2").tobytes() for row in values]
    if bits == 8:
        return [row.astype(numpy.uint8).tobytes() for row in values]
    packed = []
    for row in values:
        text = "".join(format(int(value), f"0{bits}b") for value in row.flatten())
        text += "0" * (-len(text) % 8)
        packed.append(int(text, 2).to_bytes(len(text) // 8, "big"))
    return packed


def interlaced_rows(values):
    """The seven passes of Adam7."""
    passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
              (0, 1, 1, 2))
    for x, y, step_x, step_y in passes:
        yield from rows_of(values[y::step_y, x::step_x], 8)


def exif(orientation, order=">"):
    mark = b"MM" if order == ">" else b"II"
    return (mark + struct.pack(order + "HIH", 42, 8, 1)
            + struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0) + struct.pack(order + "I", 0))


def saved(image, form, **options):
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def jpeg(image, **options):
    return saved(image, "JPEG", **options)


def pictures():
    smooth = Image.fromarray(ramp(3).astype(numpy.uint8)).resize((61, 45), Image.BILINEAR)
    grey, grey_alpha, rgb, palette, rgba = 0, 4, 2, 3, 6
    for bits in (1, 2, 4, 8, 16):
        yield f"png grey {bits}", png(rows_of(ramp(1, 1 << bits), bits), bits, grey)
    for bits in (8, 16):
        yield f"png rgb {bits}", png(rows_of(ramp(3, 1 << bits), bits), bits, rgb)
        yield f"png grey alpha {bits}", png(rows_of(ramp(2, 1 << bits), bits), bits, grey_alpha)
        yield f"png rgba {bits}", png(rows_of(ramp(4, 1 << bits), bits), bits, rgba)
    for bits in (1, 2, 4, 8):
        count = min(1 << bits, 47)
        colours = (b"PLTE", ramp(3).astype(numpy.uint8).tobytes()[: 3 * count])
        indices = rows_of(ramp(1, count), bits)
        yield f"png palette {bits}", png(indices, bits, palette, colours)
        yield f"png palette {bits} clear", png(indices, bits, palette, colours, (b"tRNS", b"\0\x80"))
    gamma = (b"gAMA", struct.pack(">I", 100000))
    half = numpy.full((SIZE[1], SIZE[0], 3), 0x8000, dtype=numpy.uint64)
    yield "png rgb 16 of 0x8000", png(rows_of(half, 16), 16, rgb)
    yield "png rgb 16 gamma 1", png(rows_of(half, 16), 16, rgb, gamma)
    yield "png rgb 8 gamma 1", png(rows_of(ramp(3), 8), 8, rgb, gamma)
    yield "png rgb 8 srgb", png(rows_of(ramp(3), 8), 8, rgb, (b"sRGB", b"\0"))
    yield "png grey 8 clear", png(rows_of(ramp(1), 8), 8, grey, (b"tRNS", b"\0\x07"))
    yield "png rgb 8 clear", png(rows_of(ramp(3), 8), 8, rgb, (b"tRNS", b"\0\1\0\2\0\3"))
    yield "png rgb 8 background", png(rows_of(ramp(3), 8), 8, rgb, (b"bKGD", b"\0\1\0\2\0\3"))
    yield "png exif 6", png(rows_of(ramp(3), 8), 8, rgb, (b"eXIf", exif(6)))
    yield "png interlaced", png(interlaced_rows(ramp(3)), 8, rgb, interlaced=True)
    yield "png filtered", saved(smooth, "PNG", optimize=True)
    for sampling in (0, 1, 2):
        yield f"jpeg sampling {sampling}", jpeg(smooth, quality=90, subsampling=sampling)
    yield "jpeg progressive", jpeg(smooth, quality=80, progressive=True)
    yield "jpeg grey", jpeg(smooth.convert("L"), quality=90)
    yield "jpeg rgb kept", jpeg(smooth, quality=95, keep_rgb=True)
    for orientation in range(1, 9):
        order = "<>"[orientation % 2]
        yield f"jpeg exif {orientation}", jpeg(smooth, exif=b"Exif\0\0" + exif(orientation, order))
    yield "jpeg exif of nothing", jpeg(smooth, exif=b"Exif\0\0MM\0*")


def arrays():
    for kind in "?", "u1", "i1", "<i2", ">i4", "<i8", "<f2", ">f4", "<f8":
        yield kind, ramp(4).astype(kind)
    yield "<f4 Fortran", numpy.asfortranarray(ramp(4).astype("<f4"))
    yield ">i2 Fortran", numpy.asfortranarray(ramp(4).astype(">i2"))
    yield "<f8 transposed", ramp(4).astype("<f8").transpose(2, 0, 1)
    yield "<f4 a number", numpy.float32(1.5)
    yield "<f4 nothing", numpy.empty((3, 0, 2), "<f4", order="F")


def of_pillow(path, mode):
    with Image.open(path) as image:
        return numpy.asarray(ImageOps.exif_transpose(image).convert(mode))


def of_opencv(path, mode):
    if mode == "L":
        return cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    return cv2.cvtColor(cv2.imread(str(path), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


def of_troupe(program, kind, path, *channels):
    ran = subprocess.run([program, path, *channels], capture_output=True, check=True)
    shape, _, values = ran.stdout.partition(b"\n")
    return numpy.frombuffer(values, kind).reshape([int(side) for side in shape.split()])


def difference(ours, theirs):
    """The largest, of 255."""
    if ours.shape != theirs.shape:
        return f"{ours.shape} {theirs.shape}"
    return int(numpy.abs(ours.astype(int) - theirs.astype(int)).max())


def check_picture(program, name, path):
    """Whether it is read as expected."""
    colours = of_troupe(program, "u1", path, "3")
    grey = of_troupe(program, "u1", path, "1")[:, :, 0]
    shown = {"Pillow RGB": difference(colours, of_pillow(path, "RGB")),
             "Pillow L": difference(grey, of_pillow(path, "L")),
             "OpenCV RGB": difference(colours, of_opencv(path, "RGB")),
             "OpenCV L": difference(grey, of_opencv(path, "L"))}
    asked = ["OpenCV RGB"] if name == PILLOW_CLIPS else ["Pillow RGB", "Pillow L", "OpenCV RGB"]
    most = TOLERANCE[name.split()[0]]
    holds = all(shown[peer] in range(most + 1) for peer in asked)
    print(f"{name:24}", *(f"{peer} {value}" for peer, value in shown.items()),
          "" if holds else f"WRONG: expected {', '.join(asked)} at most {most}")
    return holds


def check_array(program, name, path, array):
    kind = array.dtype.newbyteorder("=")
    numpy.save(path, array)
    read = of_troupe(program, kind, path)
    holds = read.shape == array.shape and numpy.array_equal(read, array)
    print(f"npy {name:20}", "NumPy's values" if holds else f"WRONG: {read} for {array}")
    return holds


def main():
    (program,) = sys.argv[1:]
    warnings.simplefilter("ignore")  # Pillow's, of palettes
    holds = []
    with tempfile.TemporaryDirectory() as folder:
        for name, content in pictures():
            path = pathlib.Path(folder, "picture")
            path.write_bytes(content)
            holds.append(check_picture(program, name, path))
        for name, array in arrays():
            holds.append(check_array(program, name, pathlib.Path(folder, "array.npy"), array))
    print(f"check_files: {sum(holds)} of {len(holds)} files are read as expected")
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()
