package dev.kerasvit.core

import java.io.File
import java.io.FileNotFoundException
import java.io.IOException
import java.nio.ByteBuffer
import java.nio.ByteOrder
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.add
import kotlinx.serialization.json.addJsonObject
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonArray
import kotlinx.serialization.json.putJsonObject

/**
 * Writes a gallery as [readGallery] reads it.
 *
 * @param folder of the bundle; must not hold a gallery
 * @param description of the model whose features the pictures have
 * @throws IOException if it cannot be written
 */
internal fun writeGallery(folder: File, description: Description, gallery: Gallery) {
    if (!File(folder, GALLERY).mkdirs()) throw IOException("$folder cannot be written")
    val features = FloatArray(description.output.size)
    val row = ByteBuffer.allocate(features.size * 4).order(ByteOrder.LITTLE_ENDIAN)
    File(folder, VECTORS).outputStream().buffered().use { output ->
        for (picture in gallery.pictures) {
            picture.copyFeatures(features)
            for (i in features.indices) row.putFloat(i * 4, features[i])
            output.write(row.array())
        }
    }
    for ((i, picture) in gallery.pictures.withIndex()) {
        val small = try {
            picture.openThumbnail()
        } catch (_: FileNotFoundException) {
            continue // Its features are what counts.
        }
        small.use { File(folder, thumbnail(i)).outputStream().use(it::copyTo) }
    }
    File(folder, GALLERY_JSON).writeText(jsonOf(description, gallery).toString())
}

private fun jsonOf(description: Description, gallery: Gallery) = buildJsonObject {
    put("format", FORMAT)
    put("sha256", description.sha256)
    put("features", description.output.size)
    putJsonArray("classes") { for (name in gallery.classes) add(name) }
    putJsonArray("pictures") {
        for (picture in gallery.pictures) addJsonObject {
            put("name", picture.name)
            if (picture.target == null) put("target", JsonNull) else put("target", picture.target)
        }
    }
    putJsonObject("vote") {
        put("of", gallery.vote.of.jsonName)
        put("neighbours", gallery.vote.neighbours)
        put("temperature", gallery.vote.temperature)
    }
}
