import dev.kerasvit.core.Classifier
import dev.kerasvit.core.FolderFiles
import dev.kerasvit.core.readBundle
import dev.kerasvit.core.readModel
import dev.kerasvit.core.report
import dev.kerasvit.core.verify
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineOptions
import dev.kerasvit.jvm.JvmEngines
import dev.kerasvit.jvm.rgbImageOf
import java.io.File
import javax.imageio.ImageIO

/** Arguments: the folder of a bundle, then pictures. */
fun main(arguments: Array<String>) {
    val files = FolderFiles(File(arguments.first()))
    val bundle = readBundle(files)
    val engines = JvmEngines()
    val model = readModel(files, bundle.description)
    val engine = engines.create(model, EngineOptions(Backend.CPU, threads = 2))
    Classifier(bundle, engine).use { classifier ->
        for (picture in arguments.drop(1)) {
            val image = rgbImageOf(ImageIO.read(File(picture)))
            val best = classifier.classify(image).predictions().first()
            println("$picture: ${best.label} (${best.probability})")
        }
    }
    // Does this runtime compute what Python computed?
    println(report("this computer", engines.runtime, bundle, verify(files, bundle, engines)))
}
