"""Runs pictures through MediaPipe's ImageClassifier and prints the probabilities as JSON.

python mediapipe_runner.py model.tflite pictures.npz

It needs only NumPy and mediapipe, of any version, because it is also started in environments that
have nothing else.
"""

import json
import sys

import numpy as np


def main(file, pictures):
    import mediapipe
    from mediapipe.tasks.python import BaseOptions, vision

    answer = {"version": mediapipe.__version__}
    options = vision.ImageClassifierOptions(base_options=BaseOptions(model_asset_path=file))
    try:
        classifier = vision.ImageClassifier.create_from_options(options)
    except (RuntimeError, ValueError) as error:
        return answer | {"refused": str(error).splitlines()[0]}
    with np.load(pictures) as content:
        return answer | {
            "scores": [scores(classifier, content[str(i)]) for i in range(len(content.files))]
        }


def scores(classifier, picture):
    import mediapipe

    image = mediapipe.Image(
        image_format=mediapipe.ImageFormat.SRGB, data=np.ascontiguousarray(picture)
    )
    categories = classifier.classify(image).classifications[0].categories
    found = {category.index: category.score for category in categories}
    return [found.get(i, 0.0) for i in range(max(found) + 1)]


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
