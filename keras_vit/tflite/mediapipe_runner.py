"""Runs pictures through MediaPipe's ImageClassifier and prints the probabilities as JSON.

python mediapipe_runner.py model.tflite FOLDER

It needs only NumPy and mediapipe, of any version, because it is also started in environments that
have nothing else.
"""

import json
import sys
from pathlib import Path

import numpy as np


def main(file, folder):
    """The answer: see `client_process.py`."""
    classifier, answer = created("ImageClassifier", file)
    if classifier is None:
        return answer
    return answer | {"scores": [scores(classifier, picture) for picture in pictures(folder)]}


def created(task, file, **settings):
    """A task of MediaPipe with a file, or None; and the beginning of the answer.

    Args:
        task: "ImageClassifier", for example.
        file: the path of the file.
        settings: other options of the task.
    """
    try:
        import mediapipe
        from mediapipe.tasks.python import BaseOptions, vision
    except ImportError as error:
        return None, {"missing": str(error)}
    answer = {"version": mediapipe.__version__}
    options = getattr(vision, f"{task}Options")(
        base_options=BaseOptions(model_asset_path=file), **settings
    )
    try:
        return getattr(vision, task).create_from_options(options), answer
    except (RuntimeError, ValueError) as error:
        return None, answer | {"refused": str(error).splitlines()[0]}


def pictures(folder):
    """The pictures of a folder, uint8 (height, width, 3)."""
    folder = Path(folder)
    for case in json.loads((folder / "cases.json").read_text()):
        yield np.fromfile(folder / case["file"], case["dtype"]).reshape(case["shape"])


def scores(classifier, picture):
    """The probability of each class."""
    import mediapipe

    data = np.ascontiguousarray(picture)
    image = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=data)
    categories = classifier.classify(image).classifications[0].categories
    found = {category.index: category.score for category in categories}
    return [found.get(i, 0.0) for i in range(max(found) + 1)]


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
