package dev.kerasvit.demo

import android.content.Context
import android.graphics.Bitmap
import androidx.camera.core.ImageAnalysis
import androidx.camera.core.ImageProxy
import dev.kerasvit.android.AssetFiles
import dev.kerasvit.android.KerasVit
import dev.kerasvit.android.classifyBlocking
import dev.kerasvit.android.liteRtEngines
import dev.kerasvit.core.BackendVerdict
import dev.kerasvit.core.Prediction
import dev.kerasvit.core.StoredBundles
import dev.kerasvit.core.readBundle
import dev.kerasvit.core.verify
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineOptions
import java.io.File
import kotlin.math.roundToInt
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.withContext

// What docs/own-app.md shows: here it is compiled. A Python test compares the two.

suspend fun flowerOn(photo: Bitmap, context: Context): String =
    KerasVit.open(context.assets, "flowers-int8").use { model ->
        val best = model.classify(photo).first()
        "${best.label}: ${(100 * best.probability).roundToInt()}%"
    }

suspend fun flowerAnalyzer(context: Context, show: (Prediction) -> Unit): FlowerAnalyzer {
    val files = AssetFiles(context.assets, "flowers-float16")
    val options = EngineOptions(Backend.GPU, threads = 1)
    return FlowerAnalyzer(KerasVit.open(files, options, engines = liteRtEngines(context)), show)
}

class FlowerAnalyzer(val model: KerasVit, private val show: (Prediction) -> Unit) :
    ImageAnalysis.Analyzer {
    override fun analyze(frame: ImageProxy) =
        frame.use { show(model.classifyBlocking(it).first()) }
}

suspend fun added(zip: File, context: Context): KerasVit {
    val models = StoredBundles(File(context.filesDir, "models"))
    val name = withContext(Dispatchers.IO) { models.add(zip, zip.name) }
    return KerasVit.open(models.files(name))
}

fun check(context: Context): List<BackendVerdict> {
    val files = AssetFiles(context.assets, "flowers-int8")
    return verify(files, readBundle(files), liteRtEngines(context))
}
