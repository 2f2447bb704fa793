package dev.kerasvit.core

/**
 * By how much a decoder shall divide the sides of a picture: a power of two, 1 up to 16 megapixels.
 *
 * Those are decoded whole, so that the model gets Python's very pixels (the decoders of JPEG may
 * differ by one level). Of a larger one the decoder's averaging comes before the antialiased resize,
 * and scores may differ from Python's in the second digit. The 4 megapixels or more that are left
 * are still far above any model's input.
 */
fun sampleSize(width: Int, height: Int): Int {
    var size = 1
    while (width.toLong() / size * (height / size) > MOST_PIXELS) size *= 2
    return size
}

private const val MOST_PIXELS = 16_000_000L
