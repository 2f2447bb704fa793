package dev.kerasvit.demo

import android.content.SharedPreferences
import dev.kerasvit.demo.state.Settings

/** What the app remembers when it is started again, also after a swipe from the recents. */
interface KeptSettings {
    /** Null at the first start, and of another version of the app. */
    fun read(): Settings?

    fun write(settings: Settings)
}

/** In a file of the app's own, written in the background. */
class PreferredSettings(private val preferences: SharedPreferences) : KeptSettings {
    override fun read(): Settings? {
        val kept = preferences.all
        return settingsOf(kept.filterValues { it is String }.mapValues { it.value as String })
    }

    override fun write(settings: Settings) {
        val editor = preferences.edit().clear()
        for ((name, text) in textsOf(settings.choices)) editor.putString(name, text)
        editor.apply()
    }
}
