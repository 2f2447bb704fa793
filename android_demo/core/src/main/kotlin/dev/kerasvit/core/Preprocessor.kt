package dev.kerasvit.core

import java.nio.ByteBuffer

/**
 * From an image of any size to the file's input, equal to `keras_vit.preprocess` bit for bit.
 *
 * Tables and buffers are kept: no memory is allocated for an image of the same size as the last
 * one. For one thread.
 */
class Preprocessor(private val input: Input) {
    /** The input tensor, direct and in native byte order; overwritten by [run]. */
    val tensor: ByteBuffer = directBuffer(input.bytes)

    private val writer = TensorWriter(input, tensor)
    private var resizer: Resizer? = null

    /** Crops, resizes and scales an image. Returns [tensor]. */
    fun run(image: RgbImage): ByteBuffer {
        var current = resizer
        if (current == null || !current.fits(image)) {
            current = resizer(image.width, image.height, input)
            resizer = current
        }
        current.run(image, writer)
        return tensor
    }
}
