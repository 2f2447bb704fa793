"""Measures the input of training and evaluation: images a second, and CPU milliseconds an image.

The peers are `keras.utils.image_dataset_from_directory` and plain tf.data pipelines. They take
turns in one process, so that drift cancels; figures are medians over the rounds. CPU time also
tells them apart on a machine with other work. Without --data, pictures are made: JPEG files of
500 x 375 pixels with the spectrum of photographs.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from PIL import Image

BATCH = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder with one subfolder for each class")
    parser.add_argument("--images", type=int, default=600, help="pictures to make (default: 600)")
    parser.add_argument("--size", type=int, default=224, help="input size (default: 224)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: 5)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.data or make_pictures(Path(temporary), arguments.images)
        figures = measured(pipelines(folder, arguments.size), arguments.rounds)
    print(f"{'':34}  images/s  CPU ms  images/s to the reference of its group")
    for group, rows in figures.items():
        reference = next(iter(rows.values()))
        for name, (speed, cpu) in rows.items():
            ratios = [a / b for a, b in zip(speed, reference[0], strict=True)]
            print(
                f"{group + ': ' + name:34}  {statistics.median(speed):8.0f}"
                f"  {statistics.median(cpu):6.2f}  {statistics.median(ratios):.2f}"
            )


def pipelines(folder: Path, size: int) -> dict[str, dict[str, Callable[[], Iterable]]]:
    """The pipelines by group; each function makes one pass over all pictures."""
    import keras
    import tensorflow as tf

    from keras_vit import Preprocessing
    from keras_vit.data import evaluation_batches, image_folder, training_batches

    source, preprocessing = image_folder(folder), Preprocessing(size, size)
    indices, steps = np.arange(len(source)), len(source) // BATCH
    files = tf.constant([str(folder / name) for name in source.ids])

    def directory(*layers):
        batches = keras.utils.image_dataset_from_directory(
            folder, image_size=(size, size), batch_size=BATCH, shuffle=False, verbose=0
        )
        for layer in layers:
            batches = batches.map(lambda x, y, f=layer: (f(x), y), tf.data.AUTOTUNE)
        return batches.prefetch(tf.data.AUTOTUNE)

    def plain(example):
        examples = tf.data.Dataset.range(len(source)).map(example, tf.data.AUTOTUNE)
        return examples.batch(BATCH).prefetch(tf.data.AUTOTUNE)

    def cropped(i):
        content = tf.io.read_file(files[i])
        start, length, _ = tf.image.stateless_sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(content),
            tf.zeros((0, 0, 4)),
            seed=tf.stack([i, 0]),
            min_object_covered=0.0,
            area_range=(0.05, 1),
            aspect_ratio_range=(0.75, 4 / 3),
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.concat([start[:2], length[:2]], 0)
        image = tf.image.resize(tf.image.decode_and_crop_jpeg(content, window, 3), (size, size))
        return tf.image.stateless_random_flip_left_right(tf.cast(image, tf.uint8), (i, 1))

    def whole(i):
        image = tf.io.decode_jpeg(tf.io.read_file(files[i]), 3)
        return tf.cast(tf.image.resize(image, (size, size), antialias=True), tf.uint8)

    def ours(augment):
        return lambda: training_batches(source, indices, preprocessing, BATCH, steps, augment)

    flip_and_crop = (keras.layers.RandomFlip("horizontal"), keras.layers.RandomZoom(0.2))
    kept = evaluation_batches(source, indices, preprocessing, BATCH)
    return {
        "training": {
            "tf.data, crop and flip": lambda: plain(cropped),
            "image_dataset and layers": lambda: directory(*flip_and_crop),
            "keras_vit crop_flip": ours("crop_flip"),
            "keras_vit randaugment_2_10": ours("randaugment_2_10"),
            "keras_vit three_augment": ours("three_augment"),
        },
        "evaluation": {
            "tf.data, antialiased": lambda: plain(whole),
            "image_dataset": directory,
            "keras_vit, first pass": lambda: evaluation_batches(
                source, indices, preprocessing, BATCH
            ),
            "keras_vit, later passes": lambda: kept,
        },
    }


def measured(
    groups: dict[str, dict[str, Callable[[], Iterable]]], rounds: int
) -> dict[str, dict[str, tuple[list[float], list[float]]]]:
    """Images a second and CPU milliseconds an image, of each round after a first one."""
    figures = {group: {name: ([], []) for name in rows} for group, rows in groups.items()}
    for number in range(rounds + 1):
        for group, rows in groups.items():
            for name, make in rows.items():
                batches = iter(make())
                next(batches)  # the start of a pipeline takes tenths of a second
                start, cpu, count = time.monotonic(), time.process_time(), 0
                for batch in batches:
                    count += len(batch[0] if isinstance(batch, tuple) else batch)
                speed = count / (time.monotonic() - start)
                cpu = 1000 * (time.process_time() - cpu) / count
                if number:
                    figures[group][name][0].append(speed)
                    figures[group][name][1].append(cpu)
    return figures


def make_pictures(folder: Path, count: int, size: tuple[int, int] = (375, 500)) -> Path:
    """JPEG files of noise whose amplitude falls as 1 / frequency, in two classes."""
    generator = np.random.default_rng(0)
    rows, columns = (np.fft.fftfreq(side)[:, None] for side in size)
    amplitude = 1 / np.maximum(np.hypot(rows, columns.T), 1e-3)
    for label in ("a", "b"):
        (folder / label).mkdir()
    for i in range(count):
        noise = np.fft.fft2(generator.normal(size=(3, *size)))
        levels = np.fft.ifft2(noise * amplitude).real.transpose(1, 2, 0)
        levels = (levels - levels.mean()) / levels.std() * 50 + 128
        image = Image.fromarray(levels.clip(0, 255).astype(np.uint8))
        image.save(folder / "ab"[i % 2] / f"{i:05}.jpg", quality=90)
    return folder


if __name__ == "__main__":
    main()
