"""The functions of `decoding.py` and `preprocessing.py` with TensorFlow operations only.

They are for `tf.data` pipelines, and for servers without Pillow and this library. They use the same
arithmetic as Pillow, integers with 22 fractional bits, or as `mediapipe.py`, so that every pixel is
equal. They read JPEG and PNG files.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from keras_vit._errors import UsageError
from keras_vit.data import mediapipe, picture_limits
from keras_vit.data.luma_and_crop import central_box, luma, shown_size
from keras_vit.specs import Preprocessing

_BITS = 22
_BAND = 2**20  # pixels that are computed at once, so that their memory does not depend on the size
_SUMMED = 2**20  # values that are added in one step
_COUNTED = 2**20  # bytes of a file in which patterns are searched at once
# Markers of a JPEG, the start of its EXIF block, and the tag for the camera's orientation.
_APP1, _START_OF_SCAN, _FILLING = 0xFFE1, 0xFFDA, 0xFFFF
_EXIF, _LITTLE_ENDIAN, _ORIENTATION = 0x45786966, 0x4949, 0x0112
# Segments of a JPEG and fill bytes that are read to find the EXIF block: 0.1 seconds at most.
_MOST_SEGMENTS = 1024
_PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
_WIDTH, _BIT_DEPTH = 16, 24  # positions in a PNG
_AT_ONCE = 16  # pictures that are decoded in parallel, if their pixels are within the limit


@tf.autograph.experimental.do_not_convert
def preprocess_tensor(images: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
    """`keras_vit.preprocess` for symbolic tensors, as in `ds.map`, with exactly the same result.

    Args:
        images: pixels from 0 to 255 of any numeric type, (n, height, width, channels), or one
            image (height, width, channels) or (height, width), with 1, 3 or 4 channels; only the
            channels must be known. Or contents of JPEG and PNG files: strings (n,) or ().
        preprocessing: size and scale.

    Returns:
        float32 (n, *preprocessing.shape), or `preprocessing.shape` for one image.

    Raises:
        UsageError: the tensor has another shape or type.
        tf.errors.InvalidArgumentError: (when the graph runs) pixels are not from 0 to 255, or a
            file is broken.
    """
    rank = images.shape.rank
    if images.dtype == tf.string and rank in (0, 1):
        is_one = rank == 0
        pixels = read_pictures(images[None] if is_one else images, preprocessing)
    else:
        pixels = _rgb(images)
        is_one = pixels.shape.rank == 3
        pixels = resize(pixels[None] if is_one else pixels, preprocessing)
    inputs = normalise(pixels, preprocessing)
    return inputs[0] if is_one else inputs


def normalise(pixels: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
    """`preprocessing.normalise` of RGB pixels 0 to 255 of any type, (..., 3)."""
    x = tf.cast(pixels, tf.float32)
    x = luma(x, tf.floor) if preprocessing.channels == 1 else x
    centred = x - tf.constant(preprocessing.mean, tf.float32)
    # Not `/`, which TensorFlow would replace; see `_quotient`.
    return tf.math.divide_no_nan(centred, tf.constant(preprocessing.scale, tf.float32))


def preprocess_files(contents: tf.Tensor, preprocessing: Preprocessing) -> np.ndarray:
    """`preprocess_tensor` for an eager tensor of strings: () or (n,) to (n, *shape).

    Raises:
        UsageError: a string is not a complete JPEG or PNG, or the tensor has another shape.
    """
    if contents.shape.rank > 1:
        raise UsageError(f"expected strings () or (n,). Received: string {contents.shape}.")
    inputs = np.zeros((tf.size(contents), *preprocessing.shape), np.float32)
    for i, content in enumerate(tf.reshape(contents, (-1,))):
        try:
            inputs[i] = preprocess_tensor(content, preprocessing)
        except tf.errors.InvalidArgumentError:
            start = content.numpy()[:16]
            raise UsageError(
                "expected the contents of a JPEG or PNG file of at most "
                f"{picture_limits.MOST_PIXELS:,} pixels, as tf.io.read_file reads them. "
                f"Received: a string that begins with {start!r}; a path must be a str of Python."
            ) from None
    return inputs


def read_pictures(contents: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
    """Encoded pictures (n,), each of any size and mode, to uint8 (n, *preprocessing.size, 3).

    If a picture is not a complete JPEG or PNG, the graph raises TensorFlow's InvalidArgumentError.
    """
    shape = tf.TensorSpec((*preprocessing.size, 3), tf.uint8)
    # Always on the CPU: copying to a GPU would take longer than the work. One after the other, so
    # that the memory is that of one picture.
    with tf.device("CPU:0"):
        return tf.map_fn(
            lambda x: read_picture(x, preprocessing),
            contents,
            parallel_iterations=1,
            fn_output_signature=shape,
        )


def read_valid_pictures(
    contents: tf.Tensor, preprocessing: Preprocessing
) -> tuple[tf.Tensor, tf.Tensor]:
    """`read_pictures` with zeros for broken files; also returns which are valid: bool (n,)."""
    with tf.device("CPU:0"):
        count = tf.size(contents, tf.int64)
        index, pictures = _valid(contents, preprocessing).batch(count + 1).get_single_element()
        index, shape = index[:, None], (count + 1, *preprocessing.size, 3)
        valid = tf.scatter_nd(index, tf.fill((tf.size(index),), True), (count + 1,))
        return tf.scatter_nd(index, pictures, shape)[:count], valid[:count]


def _valid(contents, preprocessing: Preprocessing):
    """A data set of (index in `contents`, picture) for valid files, plus one extra element.

    A graph cannot catch errors, but a data set can leave out elements that raise them. The extra
    element is there because the data set must not be empty. Pictures that are decoded at the same
    time have `MOST_PIXELS` together, however many there are.
    """
    count = tf.size(contents, tf.int64)
    extra = (count, tf.zeros((*preprocessing.size, 3), tf.uint8))
    options = tf.data.Options()  # optimising takes longer than reading a few pictures
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    files = tf.data.Dataset.from_tensor_slices(contents)
    areas = files.map(lambda x: _area(_size(x))).ignore_errors()
    areas = areas.concatenate(tf.data.Dataset.from_tensors(tf.constant(1, tf.int64)))
    areas = areas.batch(count + 1).with_options(options).get_single_element()
    at_once = picture_limits.MOST_PIXELS // tf.reduce_max(areas)
    return (
        files.enumerate()
        .map(
            lambda i, x: (i, read_picture(x, preprocessing)),
            num_parallel_calls=tf.clip_by_value(at_once, 1, _AT_ONCE),
        )
        .ignore_errors()
        .concatenate(tf.data.Dataset.from_tensors(extra))
        .with_options(options)
    )


def read_picture(content: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
    """One encoded JPEG or PNG, a string, to uint8 (*preprocessing.size, 3)."""
    return resize(decode(content)[None], preprocessing)[0]


def decode(content: tf.Tensor) -> tf.Tensor:
    """One JPEG or PNG, a string, to uint8 RGB (height, width, 3).

    As in `data.decoding.decode_image`, EXIF rotation is applied, transparent pixels are blended
    with white, and the upper 8 of 16 bits are kept. The EXIF rotation of a PNG is ignored.

    The limits of docs/picture-limits.md are checked before decoding; beyond them the graph raises
    TensorFlow's InvalidArgumentError.
    """
    return tf.cond(tf.io.is_jpeg(content), lambda: _jpeg(content), lambda: _png(content))


def resize(images: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
    """`preprocessing.resize` of uint8 (n, height, width, 3), with the same result.

    As there, the width is resized first.
    """
    new_height, new_width = preprocessing.size
    if preprocessing.crop is None and images.shape[1:3] == preprocessing.size:
        return images
    if preprocessing.interpolation == "mediapipe":
        return _warped(images, preprocessing.size)
    count, height, width = tf.unstack(tf.shape(images)[:3])
    shown = shown_in(height, width, preprocessing)
    # Where it begins, and the pixels of the picture for one of the result.
    rows, columns = (
        (start, _quotient(end - start, side))
        for (start, end), side in zip(box(height, width, preprocessing), shown, strict=True)
    )
    if preprocessing.interpolation == "nearest":
        images = tf.gather(images, _nearest(width, *columns, new_width), axis=2)
        images = tf.gather(images, _nearest(height, *rows, new_height), axis=1)
        return _padded(images, shown) if preprocessing.pad else images
    cubic = preprocessing.interpolation == "bicubic"
    # The axis that is resampled is moved to the front, so that whole lines are added.
    taps = _taps(width, *columns, new_width, cubic)

    def narrowed(band):  # (rows, width, 3)
        lines = tf.reshape(tf.transpose(band, (1, 0, 2)), (width, -1))
        lines = tf.reshape(_resample(lines, *taps), (new_width, -1, 3))
        return tf.transpose(lines, (1, 0, 2))  # (rows, new_width, 3)

    rows_of_all = tf.reshape(images, (count * height, width, 3))
    lines = _in_bands(rows_of_all, narrowed, tf.maximum(width, new_width))
    lines = tf.reshape(lines, (count, height, new_width, 3))
    lines = tf.reshape(tf.transpose(lines, (1, 0, 2, 3)), (height, count * new_width * 3))
    lines = _resample(lines, *_taps(height, *rows, new_height, cubic))
    lines = tf.reshape(lines, (new_height, count, new_width, 3))
    images = tf.transpose(lines, (1, 0, 2, 3))  # (n, new_height, new_width, 3)
    return _padded(images, shown) if preprocessing.pad else images


def _rgb(images):
    """Numeric images of 1, 3 or 4 channels to uint8 RGB, (n, height, width, 3) or without n."""
    if images.shape.rank == 2:
        images = images[..., None]
    if images.shape.rank not in (3, 4) or images.shape[-1] not in (1, 3, 4):
        raise UsageError(
            "expected a tensor (height, width, channels) or (n, height, width, channels) with 1, 3 "
            f"or 4 channels. Received: {images.dtype.name} {images.shape}; if dimensions are "
            "unknown, use set_shape."
        )
    images = _levels(images)
    if images.shape[-1] == 1:
        return tf.repeat(images, 3, axis=-1)
    return images if images.shape[-1] == 3 else _over_white(images[..., :3], images[..., 3:])


def _levels(images):
    """Numbers from 0 to 255, rounded to uint8."""
    if images.dtype == tf.uint8:
        return images
    if not (images.dtype.is_floating or images.dtype.is_integer):
        raise UsageError(f"expected pixels from 0 to 255. Received: {images.dtype.name}.")
    least, most, rounded = tf.reduce_min(images), tf.reduce_max(images), tf.round(images)
    # Only integers from 0 to 1 could be a nearly black picture.
    is_fraction = (most > 0) & (most <= 1) & tf.reduce_any(images != rounded)
    expected = "expected pixels from 0 to 255. Received:"
    with (
        _required((least >= 0) & (most <= 255), expected, least, most),
        _required(~is_fraction, f"{expected} no more than 1; multiply by 255."),
    ):
        return tf.cast(rounded, tf.uint8)


def _required(condition, *message):
    """A context whose operations run only if the condition holds; otherwise the graph raises."""
    return tf.control_dependencies([tf.debugging.Assert(condition, [*message])])


def _size(content):
    """The height and width in the header of a JPEG or PNG, int32 (2,)."""
    return tf.cond(tf.io.is_jpeg(content), lambda: _jpeg_size(content), lambda: _png_size(content))


def _jpeg_size(content):
    return tf.io.extract_jpeg_shape(content)[:2]


def _png_size(content):
    start = tf.strings.substr(content, 0, _BIT_DEPTH)
    is_png = tf.strings.substr(start, 0, _WIDTH) == _PNG
    complete = is_png & (tf.strings.length(start) == _BIT_DEPTH)
    with _required(complete, "expected a JPEG or PNG"):
        sides = tf.strings.substr(start, _WIDTH, _BIT_DEPTH - _WIDTH)
    return tf.io.decode_raw(sides, tf.int32, little_endian=False)[::-1]


def _area(size):
    return tf.reduce_prod(tf.cast(size, tf.int64))


def _within_limits(size):
    most, longest = picture_limits.MOST_PIXELS, picture_limits.MOST_SIDE
    fits = tf.reduce_all((size > 0) & (size <= longest)) & (_area(size) <= most)
    expected = f"expected a picture of at most {most:,} pixels and {longest:,} a side."
    return _required(fits, f"{expected} Received (height, width):", size)


def _number_of(content, pattern: bytes):
    """How often a pattern that cannot overlap itself occurs in a string."""
    length = tf.strings.length(content)

    def add(start, count):  # a part, so that its memory does not depend on the length
        part = tf.strings.substr(content, start, _COUNTED + len(pattern) - 1)
        return start + _COUNTED, count + tf.size(tf.strings.split(part, pattern), tf.int64) - 1

    zeros = tf.zeros((), tf.int32), tf.zeros((), tf.int64)
    _, count = tf.while_loop(lambda i, _: i < length, add, zeros, parallel_iterations=1)
    return count


def _jpeg(content):
    size, scans = _jpeg_size(content), _number_of(content, picture_limits.SCAN)
    most = picture_limits.MOST_SCANNED // tf.maximum(_area(size), 1)
    expected = "expected fewer scans of a JPEG of this size, at most"
    with _within_limits(size), _required(scans <= most, expected, most, "Received:", scans):
        # The transform that Pillow uses; TensorFlow's default is less exact.
        image = tf.io.decode_jpeg(content, channels=3, dct_method="INTEGER_ACCURATE")
        orientation = _orientation(content)  # 1: unchanged; 5 to 8: like 1 to 4, but transposed
    mirrored = (orientation - 1) % 4
    image = tf.cond(orientation > 4, lambda: tf.transpose(image, (1, 0, 2)), lambda: image)
    is_flipped = (mirrored == 2) | (mirrored == 3), (mirrored == 1) | (mirrored == 2)
    return tf.reverse(image, tf.boolean_mask((0, 1), is_flipped))


def _png(content):
    size, most = _png_size(content), picture_limits.MOST_TEXTS
    texts = sum(_number_of(content, text) for text in picture_limits.TEXTS)
    expected = f"expected a PNG with at most {most} compressed texts. Received:"
    with _within_limits(size), _required(texts <= most, expected, texts):
        image = tf.io.decode_png(content, channels=4)
    with tf.control_dependencies([image]):  # decoding first makes sure that this is a PNG
        depth = tf.io.decode_raw(tf.strings.substr(content, _BIT_DEPTH, 1), tf.uint8)[0]
    # TensorFlow's alpha for files without alpha is 255, but 15 for pictures of 4 bits.
    opaque = tf.cast(2 ** tf.minimum(tf.cast(depth, tf.int32), 8) - 1, tf.uint8)
    return tf.cond(
        tf.reduce_all(image[..., 3] == opaque),
        lambda: image[..., :3],
        lambda: _in_bands(image, lambda x: _over_white(x[..., :3], x[..., 3:]), size[1]),
    )


def _in_bands(image, change, width):
    """`change` of an image (height, any, channels), for bands of rows; `width` is its widest row.

    Only a band's memory is needed for what `change` computes on the way.
    """
    height, rows = tf.shape(image)[0], tf.maximum(_BAND // width, 1)
    bands = tf.TensorArray(  # without inference, because the last band may be smaller
        tf.uint8, -(-height // rows), infer_shape=False, element_shape=(None, None, 3)
    )

    def add(i, bands):
        return i + 1, bands.write(i, change(image[i * rows : (i + 1) * rows]))

    _, bands = tf.while_loop(lambda i, _: i * rows < height, add, (0, bands), parallel_iterations=1)
    return bands.concat()


def _over_white(colours, alpha):
    # x / 255, rounded; 255 * 255 + 128 still fits in 16 bits.
    colours, alpha = tf.cast(colours, tf.uint16), tf.cast(alpha, tf.uint16)
    x = colours * alpha + 255 * (255 - alpha) + 128
    return tf.cast(tf.bitwise.right_shift(x + tf.bitwise.right_shift(x, 8), 8), tf.uint8)


# A graph of its own: without one, a file with many segments would take seconds.
@tf.function(input_signature=[tf.TensorSpec((), tf.string)], autograph=False)
def _orientation(content):
    """The EXIF orientation of a JPEG, 1 to 8; 1 if it is missing or broken."""
    data = tf.io.decode_raw(content, tf.uint8)
    size = tf.size(data, tf.int64)

    def number(at, count, little=False):
        # Beyond the end the last byte is repeated, so that a truncated EXIF block is harmless.
        index = tf.expand_dims(at, -1) + tf.range(count, dtype=tf.int64)
        digits = tf.cast(tf.gather(data, tf.clip_by_value(index, 0, size - 1)), tf.int64)
        digits = tf.where(little, digits[..., ::-1], digits)
        return tf.reduce_sum(digits * 256 ** tf.range(count - 1, -1, -1, dtype=tf.int64), -1)

    def is_exif(at):
        return (number(at, 2) == _APP1) & (number(at + 4, 4) == _EXIF)

    def is_before_exif(at):
        marker = number(at, 2)
        is_segment = (marker >= 0xFF00) & (marker != _START_OF_SCAN)
        return (at < size) & is_segment & ~is_exif(at)

    def next_segment(at):
        return at + tf.where(number(at, 2) != _FILLING, 2 + number(at + 2, 2), 1)

    start = tf.constant(2, tf.int64)
    [at] = tf.while_loop(is_before_exif, next_segment, [start], maximum_iterations=_MOST_SEGMENTS)
    expected = f"expected at most {_MOST_SEGMENTS:,} segments and fill bytes before a JPEG's pixels"
    with _required(~is_before_exif(at), expected):
        header = at + 10
    little = number(header, 2) == _LITTLE_ENDIAN
    directory = header + number(header + 4, 4, little)
    count = tf.where(is_exif(at), number(directory, 2, little), 0)
    entries = directory + 2 + 12 * tf.range(count)
    is_orientation = number(entries, 2, little) == _ORIENTATION
    value = tf.reduce_max(tf.where(is_orientation, number(entries + 8, 2, little), 0))
    return tf.where((value >= 1) & (value <= 8), value, 1)


def box(height, width, preprocessing: Preprocessing):
    """The box to cut out, ((top, bottom), (left, right)), in float32 as in Pillow."""
    sides = (tf.cast(height, tf.int64), tf.cast(width, tf.int64))
    found = central_box(sides, preprocessing, _quotient, tf.maximum)
    return [[tf.cast(edge, tf.float32) for edge in pair] for pair in found]


def shown_in(height, width, preprocessing: Preprocessing):
    """`shown_size` of a picture of this height and width, integers."""
    sides = (tf.cast(height, tf.float64), tf.cast(width, tf.float64))  # exact, as in Python

    def truncated(x):
        return tf.cast(x, tf.int64)

    def choose(condition, x, y):
        return tf.where(condition, tf.cast(x, tf.int64), tf.cast(y, tf.int64))

    return shown_size(
        sides, preprocessing, _quotient, lambda x: truncated(tf.round(x)), truncated, choose
    )


def _padded(images, shown):
    """Images (n, height, width, 3) whose pixels below and beside `shown` are black."""
    rows, columns = (tf.range(images.shape[i + 1]) < tf.cast(shown[i], tf.int32) for i in (0, 1))
    return images * tf.cast(rows[:, None, None] & columns[None, :, None], tf.uint8)


def _nearest(count, start, step, size: int):
    """The index in `count` pixels of each of `size` pixels, which are `step` of them apart."""
    # Summed step by step as in Pillow, because rounding decides at the edge of a pixel.
    steps = tf.concat([[tf.cast(start, tf.float64) + step / 2], tf.fill([size - 1], step)], 0)
    return tf.minimum(tf.cast(tf.cumsum(steps), tf.int32), count - 1)


def _taps(size, start, scale, places: int, cubic: bool):
    """The indices and weights of the lines whose sum is an output line: (taps, places) int32.

    Places beyond the picture, which are padded afterwards, get any line.
    """
    widened = tf.maximum(scale, 1)
    support = (2 if cubic else 1) * widened
    centre = tf.cast(start, tf.float64) + (tf.range(places, dtype=tf.float64) + 0.5) * scale
    first = tf.maximum(tf.cast(centre - support + 0.5, tf.int32), 0)
    last = tf.minimum(tf.cast(centre + support + 0.5, tf.int32), size)
    index = first + tf.range(tf.reduce_max(last - first))[:, None]
    x = tf.abs((tf.cast(index, tf.float64) - centre + 0.5) * (1 / widened))
    weights = tf.where(index < last, _cubic(x) if cubic else tf.maximum(1 - x, 0), 0)
    weights = tf.math.divide_no_nan(weights, tf.reduce_sum(weights, 0)) * 2.0**_BITS
    return tf.minimum(index, size - 1), tf.cast(weights + 0.5 * tf.sign(weights), tf.int32)


def _cubic(x):
    near = (1.5 * x - 2.5) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * -0.5
    return tf.where(x < 1, near, tf.where(x < 2, far, 0))


def _warped(images, size: tuple[int, int]):
    """`mediapipe.resize` of uint8 (n, height, width, 3)."""
    # Operators whose order TensorFlow does not change; see `_quotient`.
    exact = (tf.math.multiply_no_nan, tf.math.divide_no_nan)
    count, height, width = tf.unstack(tf.shape(images)[:3])
    sides = (tf.cast(side, tf.float64) for side in (height, width))
    warp = mediapipe.warp(*sides, size, *exact)
    column, row = mediapipe.places(warp, size, tf.round, *exact)
    lines = tf.reshape(images, (count, height * width, 3))

    def pixels(row, column):  # (n, new height, new width, 3)
        return tf.cast(tf.gather(lines, row * width + column, axis=1), tf.int32)

    column, row = tf.cast(column, tf.int32), tf.cast(row, tf.int32)
    return tf.cast(mediapipe.blended(pixels, column, row, height, width, tf.minimum), tf.uint8)


def _resample(lines, index, weights):
    """Sums of uint8 lines (n, values), rounded: (places, values)."""
    values = tf.shape(lines)[1]
    # A step of the loop takes time, and a picture that is made much smaller has thousands of taps.
    at_once = tf.maximum(_SUMMED // tf.maximum(index.shape[1] * values, 1), 1)

    def add(tap, total):
        taps = slice(tap, tap + at_once)
        taken = tf.cast(tf.gather(lines, index[taps]), tf.int32)  # (taps, places, values)
        return tap + at_once, total + tf.reduce_sum(taken * weights[taps][..., None], axis=0)

    half = tf.fill((index.shape[1], values), 1 << (_BITS - 1))
    _, total = tf.while_loop(lambda tap, _: tap < tf.shape(index)[0], add, (0, half))
    return tf.cast(tf.clip_by_value(tf.bitwise.right_shift(total, _BITS), 0, 255), tf.uint8)


def _quotient(x, divisor):
    # TensorFlow replaces `/` by a constant with a product, which may differ in the last digit.
    return tf.math.divide_no_nan(tf.cast(x, tf.float64), tf.cast(divisor, tf.float64))
