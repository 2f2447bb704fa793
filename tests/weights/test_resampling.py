"""The resampling of patch kernels to another patch size."""

import numpy as np
import pytest

from keras_vit.weights import resample_patches


@pytest.mark.parametrize(("old", "new"), [(8, 12), (8, 16), (12, 8), (16, 5)])
def test_patch_kernels_are_resized_as_flexivit_does(old, new, rng):
    # As in big_vision: the matrix of tf.image.resize, from its results for unit images.
    import tensorflow as tf

    basis = np.eye(old * old, dtype=np.float32).reshape(-1, old, old, 1)
    resized = tf.image.resize(basis, (new, new), method="bilinear").numpy()
    inverse = np.linalg.pinv(resized.reshape(old * old, new * new).astype(np.float64))
    kernel = rng.normal(size=(old, old, 3, 4)).astype(np.float32)
    expected = np.einsum("ab,bcd->acd", inverse, kernel.reshape(old * old, 3, 4))
    actual = resample_patches(kernel, new)
    np.testing.assert_allclose(actual.reshape(new * new, 3, 4), expected, atol=2e-5)
