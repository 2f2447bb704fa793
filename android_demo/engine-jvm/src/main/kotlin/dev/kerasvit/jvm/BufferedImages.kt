package dev.kerasvit.jvm

import dev.kerasvit.core.RgbImage
import java.awt.image.BufferedImage

/** The pixels of an image, transparent ones blended with white. EXIF tags are the caller's. */
fun rgbImageOf(image: BufferedImage): RgbImage {
    val rgb = RgbImage(image.width, image.height)
    rgb.putArgb(image.getRGB(0, 0, image.width, image.height, null, 0, image.width))
    return rgb
}
