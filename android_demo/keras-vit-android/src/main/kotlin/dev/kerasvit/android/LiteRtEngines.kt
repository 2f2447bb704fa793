package dev.kerasvit.android

import android.content.Context
import dev.kerasvit.litert.CompiledModelEngines
import java.io.File

/**
 * LiteRT's engines for this app, on the CPU, the GPU and the NPU.
 *
 * What the GPU and the NPU compile of a model is kept in the app's code cache, which Android empties
 * with each update. The NPU needs its vendor's libraries in the app, unpacked
 * (`useLegacyPackaging = true`).
 */
fun liteRtEngines(context: Context): CompiledModelEngines = CompiledModelEngines(
    vendors = context.applicationInfo.nativeLibraryDir?.let(::File),
    cache = File(context.codeCacheDir, "litert").apply { mkdirs() },
)
