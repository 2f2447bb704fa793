package dev.kerasvit.demo

import android.os.Bundle
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.Settings
import dev.kerasvit.demo.state.Source
import dev.kerasvit.engine.Backend

/** Writes settings where the system keeps them when it ends the process. */
internal fun Settings.save(out: Bundle) {
    out.putString("screen", screen.name)
    out.putString("pickingFrom", pickingFrom.name)
    out.putBoolean("pickingRival", pickingRival)
    out.putString("model", model)
    out.putString("rival", rival)
    out.putString("backend", backend.name)
    out.putInt("threads", threads)
    out.putInt("threshold", threshold)
    out.putString("query", query)
    when (source) {
        is Source.Golden -> out.putBoolean("golden", true)
        is Source.Camera -> out.putString("camera", source.facing.name)
        is Source.Picture -> out.putString("picture", source.uri)
        is Source.Sample -> out.putString("sample", source.name)
        null -> Unit
    }
}

/** What [save] wrote; null if that was an older version of the app with other names. */
internal fun savedSettings(saved: Bundle): Settings? = try {
    Settings(
        screen = Screen.valueOf(saved.getString("screen").orEmpty()),
        pickingFrom = Screen.valueOf(saved.getString("pickingFrom").orEmpty()),
        pickingRival = saved.getBoolean("pickingRival"),
        source = savedSource(saved),
        model = saved.getString("model"),
        rival = saved.getString("rival"),
        backend = Backend.valueOf(saved.getString("backend").orEmpty()),
        threads = saved.getInt("threads"),
        threshold = saved.getInt("threshold"),
        query = saved.getString("query").orEmpty(),
    )
} catch (_: IllegalArgumentException) {
    null
}

private fun savedSource(saved: Bundle): Source? {
    if (saved.getBoolean("golden")) return Source.Golden
    saved.getString("camera")?.let { return Source.Camera(Facing.valueOf(it)) }
    saved.getString("picture")?.let { return Source.Picture(it) }
    return saved.getString("sample")?.let { Source.Sample(it) }
}
