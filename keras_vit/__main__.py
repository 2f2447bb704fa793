"""`python -m keras_vit fit` is `keras-vit fit`."""

from keras_vit.cli import main

if __name__ == "__main__":
    main()
