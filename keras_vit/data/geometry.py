"""From a picture of any size to an image of the model's input size, with TensorFlow operations.

A `Placed` also says where the image's pixels come from, so that masks move with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from keras_vit._checks import LONGEST_SIDE
from keras_vit.data import tf_preprocessing
from keras_vit.specs import Preprocessing

_ASPECT = (3 / 4, 4 / 3)
_ATTEMPTS = 100  # to draw a box that fits into the picture; then the whole picture is taken
_ANGLE, _ZOOM, _SHIFT = 10.0, 0.1, 0.12  # of `shift`: degrees, and fractions of the size
_REDUCTIONS = (1, 2, 4, 8)  # the factors by which a JPEG can be decoded to a smaller size
_GREY = 128  # around a picture that is made smaller than the input


@dataclasses.dataclass(frozen=True)
class Picture:
    """A picture that may not be decoded yet.

    Attributes:
        size: height and width, int32 (2,).
        pixels: returns the whole picture, uint8 (height, width, 3).
        part: returns about the box (top, left, height, width), int32 (4,), as uint8; a box of twice
            the given size or more is reduced by a whole number, but not below that size.
    """

    size: tf.Tensor
    pixels: Callable[[], tf.Tensor]
    part: Callable[[tf.Tensor, tuple[int, int]], tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Placed:
    """A picture, or a part of it, at the model's input size.

    Attributes:
        image: uint8 (*preprocessing.size, 3).
        matrix: returns a to f, float32 (6,): pixel (x, y) of the image shows the picture at
            (a x + b y + c, d x + e y + f), both counted from the centres of the first pixels.
    """

    image: tf.Tensor
    matrix: Callable[[], tf.Tensor]


def of_pixels(pixels: tf.Tensor) -> Picture:
    """The picture of uint8 pixels (height, width, 3)."""

    def decoded(box, reduction):
        # The same blocks of pixels that a JPEG's decoder reduces to one.
        top, left, height, width = tf.unstack(box // reduction * reduction)
        cut = pixels[top : top + height, left : left + width]
        return cut if reduction == 1 else _averaged(cut, box[2:] // reduction)

    def part(box, size):
        known = zip(pixels.shape[:2], size, strict=True)
        if any(side is not None and side < 2 * length for side, length in known):
            return decoded(box, 1)  # for CIFAR-10, branches would take as long as the cut
        return _part(decoded, box, size)

    return Picture(tf.shape(pixels)[:2], lambda: pixels, part)


def of_png(content: tf.Tensor) -> Picture:
    """The picture of a plain PNG, a string."""
    return of_pixels(tf.io.decode_png(content, channels=3))


def of_jpeg(content: tf.Tensor) -> Picture:
    """The picture of a plain JPEG, a string. Only what is needed is decoded."""

    def pixels():
        return tf.io.decode_jpeg(content, channels=3, dct_method="INTEGER_ACCURATE")

    def decoded(box, reduction):
        return tf.raw_ops.DecodeAndCropJpeg(
            contents=content, crop_window=box // reduction, channels=3, ratio=reduction,
            fancy_upscaling=True,
        )  # fmt: skip

    return Picture(
        tf.io.extract_jpeg_shape(content)[:2], pixels, lambda box, size: _part(decoded, box, size)
    )


def _part(decoded: Callable, box: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """`Picture.part`: `decoded(box, reduction)`, and what is left to reduce after the largest.

    Pictures of all formats are reduced by the same numbers: a model could learn classes from a
    difference. The resize that follows then shrinks by less than 2, in one direction at least.
    """
    branches = [lambda r=r: decoded(box, r) for r in _REDUCTIONS]
    branches.append(lambda: _reduced(branches[len(_REDUCTIONS) - 1](), size))
    return tf.switch_case(_reduction(box, size), branches)


def _reduction(box: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """The place of a reduction in `_REDUCTIONS`; their number if more is reduced afterwards."""
    room = tf.reduce_min(box[2:] // tf.constant(size))
    return tf.reduce_sum(tf.cast(room >= (*_REDUCTIONS[1:], 2 * _REDUCTIONS[-1]), tf.int32))


def _reduced(image: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """The image, reduced by whole numbers if it is more than twice as high or wide as the size."""
    factors = tf.maximum((tf.shape(image)[:2] - 1) // tf.convert_to_tensor(size), 1)
    smaller = tf.shape(image)[:2] // factors
    is_large = tf.reduce_any(factors > 1)
    return tf.cond(is_large, lambda: _averaged(image, smaller), lambda: image)


def _averaged(image: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Each pixel of the result is the mean of a rectangle of the image."""
    return levels(tf.image.resize(image, size, "area"))


def whole(picture: Picture, preprocessing: Preprocessing) -> Placed:
    """The picture resized as for evaluation, with the same bits as `preprocessing.resize`."""

    resized = tf_preprocessing.resize(picture.pixels()[None], preprocessing)[0]
    return Placed(resized, lambda: of_whole(picture.size, preprocessing))


def cropped(
    picture: Picture, preprocessing: Preprocessing, seed: tf.Tensor, smallest: float
) -> Placed:
    """A random box with at least `smallest` of the area, resized (Szegedy et al. 2014).

    The resize has no antialiasing filter, as in big_vision, but large boxes are reduced first.
    For MediaPipe's resize nothing is reduced, so that training has the aliasing that it will meet.
    """
    start, length, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.concat([picture.size, [3]], 0),
        tf.zeros((0, 0, 4)),
        seed,
        min_object_covered=0.0,  # the default of 0.1 refuses smaller boxes
        area_range=(smallest, 1.0),
        aspect_ratio_range=_ASPECT,
        max_attempts=_ATTEMPTS,
        use_image_if_no_bounding_boxes=True,
    )
    box = tf.concat([start[:2], length[:2]], 0)
    image = resized(_part_for(picture, box, preprocessing), preprocessing)
    return Placed(image, lambda: _of_box(_shown(box, preprocessing), preprocessing))


def cropped_from_larger(
    picture: Picture, preprocessing: Preprocessing, seed: tf.Tensor, margin: float
) -> Placed:
    """The whole picture at `margin` times the model's input size, and a random part of that size.

    The resize changes the aspect and has no antialiasing filter, as in big_vision, but large
    pictures are reduced first, except for MediaPipe's resize.
    """
    height, width = (round(margin * side) for side in preprocessing.size)
    larger = dataclasses.replace(preprocessing, height=height, width=width)
    box = tf.concat([[0, 0], picture.size], 0)
    image = resized(_part_for(picture, box, larger), larger)
    # The place that tf.image.stateless_random_crop draws.
    drawn = tf.random.stateless_uniform((3,), seed, maxval=tf.int32.max, dtype=tf.int32)
    top = drawn[0] % (height - preprocessing.height + 1)
    left = drawn[1] % (width - preprocessing.width + 1)
    image = tf.slice(image, [top, left, 0], (*preprocessing.size, 3))
    return Placed(image, lambda: _moved(_of_box(_shown(box, larger), larger), left, top))


def zoomed(
    picture: Picture, preprocessing: Preprocessing, seed: tf.Tensor, scales: tuple[float, float]
) -> Placed:
    """The whole picture at a random multiple of the model's input size, and a part of that size.

    If it is smaller, it is at a random place, with grey around it.
    """
    draws = tf.random.stateless_uniform((3,), seed)
    scale = scales[0] + draws[0] * (scales[1] - scales[0])
    size, sides = tf.constant(preprocessing.size, tf.float32), tf.cast(picture.size, tf.float32)
    shown = tf.cast(tf.round(size * tf.minimum(scale, 1.0)), tf.int32)
    part = tf.maximum(tf.cast(sides / tf.maximum(scale, 1.0), tf.int32), 1)
    start = tf.cast(draws[1:] * tf.cast(picture.size - part + 1, tf.float32), tf.int32)
    top, left = tf.unstack(tf.cast(draws[1:] * (size - tf.cast(shown, tf.float32) + 1.0), tf.int32))
    box = tf.concat([start, part], 0)
    image = tf.image.resize(_reduced(_part_for(picture, box, preprocessing), shown), shown)
    bottom, right = tf.unstack(preprocessing.size - shown)
    margins = [[top, bottom - top], [left, right - left], [0, 0]]
    image = tf.ensure_shape(
        tf.pad(levels(image), margins, constant_values=_GREY), (*preprocessing.size, 3)
    )

    def matrix():
        resize = dataclasses.replace(preprocessing, interpolation="bilinear")
        whole = _of_box(_shown(box, preprocessing), resize, tf.unstack(shown))
        return _moved(whole, -left, -top)

    return Placed(image, matrix)


def _part_for(picture: Picture, box: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
    """`Picture.part` for a resize."""
    return picture.part(box, _unreduced(preprocessing))


def _shown(box: tf.Tensor, preprocessing: Preprocessing) -> list[tf.Tensor]:
    """The box that `_part_for` shows: that of whole blocks, where it reduces the picture."""
    reductions = tf.constant((*_REDUCTIONS, _REDUCTIONS[-1]))
    reduction = tf.gather(reductions, _reduction(box, _unreduced(preprocessing)))
    return tf.unstack(box // reduction * reduction)


def _unreduced(preprocessing: Preprocessing) -> tuple[int, int]:
    """The size from twice of which on a box is reduced."""
    if preprocessing.interpolation == "mediapipe":
        return LONGEST_SIDE, LONGEST_SIDE
    return preprocessing.size


def resized(image: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
    """uint8 (height, width, 3) to uint8 (*preprocessing.size, 3), without antialiasing."""
    if preprocessing.interpolation == "mediapipe":
        return tf_preprocessing.resize(image[None], preprocessing)[0]
    image = tf.image.resize(image, preprocessing.size, preprocessing.interpolation)
    if preprocessing.interpolation == "bicubic":  # the only one that leaves the levels of its input
        image = tf.clip_by_value(image, 0.0, 255.0)
    return levels(image)


def shifted(image: tf.Tensor, preprocessing: Preprocessing, seed: tf.Tensor) -> Placed:
    """Shifts by up to 12%, rotates by up to 10 degrees and zooms by up to 10%, without a flip.

    It is for pictures that must not be mirrored, such as digits. Pixels from outside are black.
    """
    # Where the centre of the first pixel is: MediaPipe resizes from corner to corner, unreduced.
    half = _half(preprocessing)
    whole_size = tf.cast(tf.shape(image)[:2], tf.float32)
    image = _reduced(image, preprocessing.size) if half else image
    draws = tf.unstack(tf.random.stateless_uniform((4,), seed, -1.0, 1.0))
    angle, zoom = draws[0] * _ANGLE * (3.141592653589793 / 180), 1 + draws[1] * _ZOOM
    size = tf.cast(tf.shape(image)[:2], tf.float32)
    height, width = tf.unstack(size)
    new_height, new_width = preprocessing.size
    # Output pixel (x, y) reads input (a x + b y + c, d x + e y + f), relative to both centres.
    cos, sin = tf.cos(angle) / zoom, tf.sin(angle) / zoom
    scale_x, scale_y = width / new_width, height / new_height
    a, b, d, e = cos * scale_x, -sin * scale_y, sin * scale_x, cos * scale_y
    centre_x, centre_y = new_width / 2 - half, new_height / 2 - half
    c = width * (0.5 + draws[2] * _SHIFT) - half - a * centre_x - b * centre_y
    f = height * (0.5 + draws[3] * _SHIFT) - half - d * centre_x - e * centre_y
    matrix = tf.stack([a, b, c, d, e, f])

    def of_whole():  # the same for the picture before it was reduced
        y, x = tf.unstack(whole_size / size)
        return tf.stack([a * x, b * x, (c + half) * x - half, d * y, e * y, (f + half) * y - half])

    image = transformed(image, matrix, preprocessing.size, "BILINEAR", 0.0, half)
    return Placed(image, of_whole)


def mirrored(placed: tuple[tf.Tensor, tf.Tensor | None], seed: tf.Tensor) -> tuple[tf.Tensor, Any]:
    """Mirrors half of the images, as tf.image.stateless_random_flip_left_right, and the matrix.

    Args:
        placed: an image, and its matrix (see `Placed`) or None.
        seed: (2,).
    """
    image, matrix = placed
    is_mirrored = tf.random.stateless_uniform((), seed) < 0.5
    flipped = tf.cond(is_mirrored, lambda: tf.reverse(image, [1]), lambda: image)
    if matrix is not None:
        a, b, c, d, e, f = tf.unstack(matrix)
        last = float(image.shape[1] - 1)
        turned = tf.stack([-a, b, c + a * last, -d, e, f + d * last])
        matrix = tf.where(is_mirrored, turned, matrix)
    return flipped, matrix


def moved_mask(mask: tf.Tensor, matrix: tf.Tensor, size: tuple[int, int], fill: int) -> tf.Tensor:
    """The nearest value of a mask, uint8 (height, width), for each pixel of an image of `size`.

    Args:
        mask: the values of the picture's pixels.
        matrix: where the image's pixels come from, see `Placed`.
        size: height and width of the image.
        fill: the value outside of the picture.
    """
    return transformed(mask[..., None], matrix, size, "NEAREST", float(fill))[..., 0]


def of_whole(size: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
    """The matrix of `whole` for a picture of this height and width, int32 (2,)."""
    sides = tf.unstack(size)
    (top, bottom), (left, right) = tf_preprocessing.box(*sides, preprocessing)
    shown = tf_preprocessing.shown_in(*sides, preprocessing)
    return _of_box([top, left, bottom - top, right - left], preprocessing, shown)


def _of_box(
    box: Sequence[Any], preprocessing: Preprocessing, size: Sequence[Any] | None = None
) -> tf.Tensor:
    """The matrix of a box (top, left, height, width) that is resized; see `Placed`.

    Args:
        box: in pixels of the picture.
        preprocessing: how it is resized.
        size: to which height and width; None for the model's input size.
    """
    top, left, height, width = (tf.cast(each, tf.float32) for each in box)
    rows, columns = (tf.cast(each, tf.float32) for each in size or preprocessing.size)
    x, y, half, zero = width / columns, height / rows, _half(preprocessing), tf.constant(0.0)
    return tf.stack([x, zero, left + half * (x - 1.0), zero, y, top + half * (y - 1.0)])


def _moved(matrix: tf.Tensor, left: Any, top: Any) -> tf.Tensor:
    """The matrix of the part of an image that begins at column `left` and row `top`."""
    a, b, c, d, e, f = tf.unstack(matrix)
    x, y = tf.cast(left, tf.float32), tf.cast(top, tf.float32)
    return tf.stack([a, b, a * x + b * y + c, d, e, d * x + e * y + f])


def _half(preprocessing: Preprocessing) -> float:
    """How far the picture begins before its first pixel's centre, for its resize."""
    return 0.0 if preprocessing.interpolation == "mediapipe" else 0.5


def transformed(
    image: tf.Tensor,
    matrix: tf.Tensor,
    size: tuple[int, int],
    interpolation: str,
    fill: float,
    half: float = 0.5,
) -> tf.Tensor:
    """An affine transform: output (x, y) is input (a x + b y + c, d x + e y + f).

    Args:
        image: uint8 (height, width, 3).
        matrix: a to f, float32 (6,).
        size: height and width of the output.
        interpolation: "NEAREST" or "BILINEAR".
        fill: the level of pixels from outside.
        half: for "BILINEAR": the picture begins this far before the centre of its first pixel.
    """

    def moved(values, interpolation, fill_mode, fill=0.0, matrix=matrix):
        return tf.raw_ops.ImageProjectiveTransformV3(
            images=values[None],
            transforms=tf.concat([matrix, [0.0, 0.0]], 0)[None],
            output_shape=tf.constant(size, tf.int32),
            fill_value=fill,
            interpolation=interpolation,
            fill_mode=fill_mode,
        )[0]

    if interpolation == "NEAREST":
        return moved(image, "NEAREST", "CONSTANT", fill)
    # Pixels at the edge of the picture are not blended with those from outside, as in Pillow.
    # A place is rounded to the nearest pixel; a thousandth keeps the first one inside.
    moves = tf.constant([0.0, 0.0, 1.0, 0.0, 0.0, 1.0]) * (min(half + 0.001, 0.5) - 0.5)
    inside = moved(tf.ones_like(image[..., :1]), "NEAREST", "CONSTANT", matrix=matrix + moves) > 0
    output = levels(moved(tf.cast(image, tf.float32), "BILINEAR", "NEAREST"))
    return tf.where(inside, output, tf.cast(fill, tf.uint8))


def within(size: tuple[int, int], start: Any, end: Any) -> tf.Tensor:
    """The pixels from row and column `start` to before `end`: bool (height, width, 1)."""
    rows, columns = (
        (tf.range(side) >= start[axis]) & (tf.range(side) < end[axis])
        for axis, side in enumerate(size)
    )
    return rows[:, None, None] & columns[None, :, None]


def levels(values: tf.Tensor) -> tf.Tensor:
    """Numbers from 0 to 255, rounded to uint8."""
    return tf.cast(tf.cast(values, tf.float32) + 0.5, tf.uint8)
