"""Runs pictures through MediaPipe's ImageSegmenter and writes the class of each of their pixels.

python mediapipe_segmenter_runner.py model.tflite FOLDER

Like `mediapipe_runner.py`, which lies beside it, it needs only NumPy and mediapipe.
"""

import json
import sys
from pathlib import Path

import numpy as np
from mediapipe_runner import created, pictures


def main(file, folder):
    """The answer, with masks in the folder: see `client_process.py`."""
    masks = {"output_category_mask": True, "output_confidence_masks": False}
    segmenter, answer = created("ImageSegmenter", file, **masks)
    if segmenter is None:
        return answer
    import mediapipe

    for i, picture in enumerate(pictures(folder)):
        image = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=picture)
        mask = segmenter.segment(image).category_mask.numpy_view()
        mask.astype(np.uint8).tofile(Path(folder) / f"{i}.mask")
    return answer


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
