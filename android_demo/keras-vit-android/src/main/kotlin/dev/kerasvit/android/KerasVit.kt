package dev.kerasvit.android

import android.content.ContentResolver
import android.content.res.AssetManager
import android.graphics.Bitmap
import android.media.Image
import android.net.Uri
import dev.kerasvit.core.Bundle
import dev.kerasvit.core.BundleException
import dev.kerasvit.core.BundleFiles
import dev.kerasvit.core.Classification
import dev.kerasvit.core.Classifier
import dev.kerasvit.core.Mask
import dev.kerasvit.core.Orientation
import dev.kerasvit.core.Prediction
import dev.kerasvit.core.RgbImage
import dev.kerasvit.core.readBundle
import dev.kerasvit.core.readModel
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.engine.EngineInfo
import dev.kerasvit.engine.EngineOptions
import dev.kerasvit.litert.CompiledModelEngines
import java.nio.ByteBuffer
import java.util.concurrent.Executors
import java.util.concurrent.atomic.AtomicBoolean
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.ExecutorCoroutineDispatcher
import kotlinx.coroutines.asCoroutineDispatcher
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext

/**
 * A model that keras_vit exported, loaded: pictures in, the most probable classes or masks out.
 *
 * ```
 * val model = KerasVit.open(context.assets, "flowers-int8")
 * val best = model.classify(bitmap).first()
 * println("${best.label}: ${best.probability}")
 * model.close()
 * ```
 *
 * The functions suspend and may be called on the main thread; those called `...Blocking` wait.
 * Loading and computing happen on a thread of this object's own, one picture after the other. Of a
 * model of features the classes are those of its gallery; there may be none, and are none of a
 * feature map. A segmenter has no class of a whole picture, either: [segment] gives its masks, and
 * throws [IllegalStateException] of any other model.
 *
 * All of them throw [EngineException] if the runtime fails, and [IllegalStateException] after [close].
 */
class KerasVit private constructor(
    private val classifier: Classifier,
    private val thread: ExecutorCoroutineDispatcher,
) : AutoCloseable {
    /** What the model expects and answers. */
    val bundle: Bundle = classifier.bundle

    /** On what it runs. */
    val engine: EngineInfo = classifier.engine.info

    private val converter = FrameConverter()

    private val isClosed = AtomicBoolean()

    /** Classifies a bitmap, transparent pixels blended with white. */
    suspend fun classify(bitmap: Bitmap): List<Prediction> = answer { rgbImageOf(bitmap) }

    fun classifyBlocking(bitmap: Bitmap): List<Prediction> = runBlocking { classify(bitmap) }

    /**
     * Classifies a photo, turned as its EXIF tag says.
     *
     * @throws PictureException if it is gone or cannot be decoded
     */
    suspend fun classify(uri: Uri, resolver: ContentResolver): List<Prediction> =
        answer { readPicture { resolver.openInputStream(uri) } }

    fun classifyBlocking(uri: Uri, resolver: ContentResolver): List<Prediction> =
        runBlocking { classify(uri, resolver) }

    /**
     * Classifies a frame of a camera, which stays open.
     *
     * @param frame in `YUV_420_888` or `RGBA_8888`
     * @param rotationDegrees by how much it must be turned clockwise to be upright: 0, 90, 180 or 270
     */
    suspend fun classify(frame: Image, rotationDegrees: Int): List<Prediction> =
        answerFrame { convert(frame, Orientation.ofRotation(rotationDegrees)) }

    fun classifyBlocking(frame: Image, rotationDegrees: Int): List<Prediction> =
        runBlocking { classify(frame, rotationDegrees) }

    /** Classifies pixels: R, G and B of each, row by row, from the buffer's position. */
    suspend fun classify(rgb: ByteBuffer, width: Int, height: Int): List<Prediction> =
        answer { rgbImageOf(rgb, width, height) }

    fun classifyBlocking(rgb: ByteBuffer, width: Int, height: Int): List<Prediction> =
        runBlocking { classify(rgb, width, height) }

    /** The class of each pixel of a bitmap, as far as the model sees it; see [Mask.seen]. */
    suspend fun segment(bitmap: Bitmap): Mask = mask { rgbImageOf(bitmap) }

    fun segmentBlocking(bitmap: Bitmap): Mask = runBlocking { segment(bitmap) }

    /** The same of a photo, turned as its EXIF tag says: see [classify]. */
    suspend fun segment(uri: Uri, resolver: ContentResolver): Mask =
        mask { readPicture { resolver.openInputStream(uri) } }

    fun segmentBlocking(uri: Uri, resolver: ContentResolver): Mask =
        runBlocking { segment(uri, resolver) }

    /** The same of a frame of a camera, turned upright: see [classify]. */
    suspend fun segment(frame: Image, rotationDegrees: Int): Mask =
        maskOfFrame { convert(frame, Orientation.ofRotation(rotationDegrees)) }

    fun segmentBlocking(frame: Image, rotationDegrees: Int): Mask =
        runBlocking { segment(frame, rotationDegrees) }

    /** The same of pixels: see [classify]. */
    suspend fun segment(rgb: ByteBuffer, width: Int, height: Int): Mask =
        mask { rgbImageOf(rgb, width, height) }

    fun segmentBlocking(rgb: ByteBuffer, width: Int, height: Int): Mask =
        runBlocking { segment(rgb, width, height) }

    /** Ends the thread after what it is doing, and frees the model. */
    override fun close() {
        if (isClosed.getAndSet(true)) return
        thread.executor.execute { classifier.close() }
        thread.close()
    }

    internal suspend fun answerFrame(convert: FrameConverter.() -> RgbImage): List<Prediction> =
        answer { converter.convert() }

    internal suspend fun maskOfFrame(convert: FrameConverter.() -> RgbImage): Mask =
        mask { converter.convert() }

    private suspend fun answer(read: () -> RgbImage): List<Prediction> =
        compute(read) { predictions() }

    private suspend fun mask(read: () -> RgbImage): Mask {
        check(bundle.description.output.mask != null) { "the model ${bundle.name} gives no masks" }
        return compute(read) { checkNotNull(mask()) }
    }

    private suspend fun <T> compute(read: () -> RgbImage, copy: Classification.() -> T): T {
        check(!isClosed.get(), ::closed)
        return try {
            withContext(thread) { classifier.classify(read()).copy() }
        } catch (error: CancellationException) {
            currentCoroutineContext().ensureActive()
            // Closed since then. The caller's coroutine must not end without a word.
            throw IllegalStateException(closed(), error)
        }
    }

    private fun closed() = "the model ${bundle.name} is closed"

    companion object {
        /**
         * Reads, checks and loads `assets/bundles/NAME`.
         *
         * @param name of the bundle's folder
         * @param options the backend is a strict choice: nothing else is tried
         * @param maxResults how many classes an answer has
         * @throws BundleException if a file is absent, damaged, or not the one of `model.json`
         * @throws EngineException if the backend cannot be had or refuses the model
         */
        suspend fun open(
            assets: AssetManager,
            name: String,
            options: EngineOptions = EngineOptions(Backend.CPU, threads = 2),
            maxResults: Int = 5,
        ): KerasVit = open(AssetFiles(assets, name), options, maxResults)

        /** The same of a bundle anywhere, on any runtime. */
        suspend fun open(
            files: BundleFiles,
            options: EngineOptions = EngineOptions(Backend.CPU, threads = 2),
            maxResults: Int = 5,
            engines: EngineFactory = CompiledModelEngines(),
        ): KerasVit {
            val thread = Executors.newSingleThreadExecutor { Thread(it, "keras_vit ${files.name}") }
                .asCoroutineDispatcher()
            var loaded: KerasVit? = null
            try {
                return withContext(thread) {
                    val bundle = readBundle(files)
                    val model = readModel(files, bundle.description)
                    val engine = engines.create(model, options)
                    KerasVit(Classifier(bundle, engine, maxResults), thread).also { loaded = it }
                }
            } catch (error: Throwable) {
                // Loaded, but nobody waits for it any more: the coroutine was cancelled.
                loaded?.close() ?: thread.close()
                throw error
            }
        }

        @JvmStatic
        @JvmOverloads
        fun openBlocking(
            assets: AssetManager,
            name: String,
            options: EngineOptions = EngineOptions(Backend.CPU, threads = 2),
            maxResults: Int = 5,
        ): KerasVit = runBlocking { open(assets, name, options, maxResults) }

        @JvmStatic
        @JvmOverloads
        fun openBlocking(
            files: BundleFiles,
            options: EngineOptions = EngineOptions(Backend.CPU, threads = 2),
            maxResults: Int = 5,
            engines: EngineFactory = CompiledModelEngines(),
        ): KerasVit = runBlocking { open(files, options, maxResults, engines) }
    }
}
