import dev.kerasvit.core.Classifier
import dev.kerasvit.core.FolderFiles
import dev.kerasvit.core.RgbImage
import dev.kerasvit.core.readBundle
import dev.kerasvit.core.readModel
import dev.kerasvit.core.report
import dev.kerasvit.core.verify
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineOptions
import dev.kerasvit.litert.CompiledModelEngines
import java.io.File
import javax.imageio.ImageIO

/** Arguments: the folder of Python's package ai_edge_litert, that of a bundle, then pictures. */
fun main(arguments: Array<String>) {
    val (liteRt, folder) = arguments.take(2).map(::File)
    val files = FolderFiles(folder)
    val bundle = readBundle(files)
    val engines = CompiledModelEngines("$liteRt/libLiteRt.so", accelerators = liteRt)
    val model = readModel(files, bundle.description)
    val engine = engines.create(model, EngineOptions(Backend.CPU, threads = 2))
    Classifier(bundle, engine).use { classifier ->
        for (picture in arguments.drop(2)) {
            val best = classifier.classify(rgbImageOf(File(picture))).predictions().first()
            println("$picture: ${best.label} (${best.probability})")
        }
    }
    // Does this runtime compute what Python computed?
    println(report("this computer", engines.runtime, bundle, verify(files, bundle, engines)))
}

private fun rgbImageOf(picture: File): RgbImage {
    val image = ImageIO.read(picture)
    val rgb = RgbImage(image.width, image.height)
    rgb.putArgb(image.getRGB(0, 0, image.width, image.height, null, 0, image.width))
    return rgb
}
