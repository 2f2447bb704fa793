"""The command `keras-vit predict`; its code is keras_vit/cli/predict.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("predict")
