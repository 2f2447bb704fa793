package dev.kerasvit.testing

import java.io.File

/**
 * LiteRT of Python's package ai-edge-litert: libLiteRt.so, and beside it the GPU's accelerator.
 *
 * `make android-test` sets the variable LITERT_FOLDER.
 */
val liteRtFolder: File by lazy {
    val folder = checkNotNull(System.getenv("LITERT_FOLDER")) {
        "set LITERT_FOLDER to site-packages/ai_edge_litert of a Python with ai-edge-litert"
    }
    File(folder)
}
