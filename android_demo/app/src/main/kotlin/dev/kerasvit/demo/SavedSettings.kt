package dev.kerasvit.demo

import android.os.Bundle
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.Settings
import dev.kerasvit.demo.state.Source
import dev.kerasvit.engine.Backend

/** Writes settings where the system keeps them when it ends the process. */
internal fun Settings.save(out: Bundle) {
    val texts = Bundle()
    for ((name, text) in textsOf(this)) texts.putString(name, text)
    out.putBundle(SETTINGS, texts)
}

/** What [save] wrote; null if that was another version of the app. */
internal fun savedSettings(saved: Bundle): Settings? {
    val texts = saved.getBundle(SETTINGS) ?: return null
    return settingsOf(texts.keySet().associateWith { texts.getString(it).orEmpty() })
}

/** Settings as texts, by name. */
internal fun textsOf(settings: Settings): Map<String, String> = with(settings) {
    val source = source
    mapOf(
        "screen" to screen.name,
        "pickingFrom" to pickingFrom.name,
        "pickingRival" to "$pickingRival",
        "model" to model,
        "rival" to rival,
        "backend" to backend.name,
        "threads" to "$threads",
        "threshold" to "$threshold",
        "opacity" to "$opacity",
        "query" to query,
        "golden" to (source as? Source.Golden)?.let { "true" },
        "camera" to (source as? Source.Camera)?.facing?.name,
        "picture" to (source as? Source.Picture)?.takeIf { it.isLasting }?.uri,
        "shared" to (source as? Source.Picture)?.takeIf { !it.isLasting }?.uri,
        "sample" to (source as? Source.Sample)?.name,
    ).mapNotNull { (name, text) -> text?.let { name to it } }.toMap()
}

/** What [textsOf] made; null if that was another version of the app, with other names. */
internal fun settingsOf(texts: Map<String, String>): Settings? = try {
    fun text(name: String) = texts[name].orEmpty()
    Settings(
        screen = Screen.valueOf(text("screen")),
        pickingFrom = Screen.valueOf(text("pickingFrom")),
        pickingRival = text("pickingRival").toBoolean(),
        source = sourceOf(texts),
        model = texts["model"],
        rival = texts["rival"],
        backend = Backend.valueOf(text("backend")),
        threads = text("threads").toInt(),
        threshold = text("threshold").toInt(),
        opacity = text("opacity").toInt(),
        query = text("query"),
    )
} catch (_: IllegalArgumentException) {
    null
}

private fun sourceOf(texts: Map<String, String>): Source? {
    if ("golden" in texts) return Source.Golden
    texts["camera"]?.let { return Source.Camera(Facing.valueOf(it)) }
    texts["picture"]?.let { return Source.Picture(it) }
    texts["shared"]?.let { return Source.Picture(it, isLasting = false) }
    return texts["sample"]?.let { Source.Sample(it) }
}

private const val SETTINGS = "settings"
