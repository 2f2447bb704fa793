"""Runs pictures through MediaPipe's ImageClassifier and prints the probabilities as JSON.

`clients.py` starts it in environments with MediaPipe: python mediapipe_runner.py FILE PICTURES.npz
"""

import json
import sys

import mediapipe
import numpy as np
from mediapipe.tasks.python import BaseOptions, vision


def main(file, pictures):
    options = vision.ImageClassifierOptions(base_options=BaseOptions(model_asset_path=file))
    try:
        classifier = vision.ImageClassifier.create_from_options(options)
    except (RuntimeError, ValueError) as error:
        return {"refused": str(error).splitlines()[0]}
    with np.load(pictures) as content:
        whole = [content[str(i)] for i in range(len(content["sized"]))]
        return {
            "sized": [scores(classifier, picture) for picture in content["sized"]],
            "whole": [scores(classifier, picture) for picture in whole],
        }


def scores(classifier, picture):
    image = mediapipe.Image(
        image_format=mediapipe.ImageFormat.SRGB, data=np.ascontiguousarray(picture)
    )
    categories = classifier.classify(image).classifications[0].categories
    found = {category.index: category.score for category in categories}
    return [found.get(i, 0.0) for i in range(max(found) + 1)]


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
