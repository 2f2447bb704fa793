package dev.kerasvit.demo

import android.util.Log
import androidx.datastore.core.DataStoreFactory
import androidx.datastore.core.Serializer
import dev.kerasvit.demo.state.Settings
import java.io.File
import java.io.IOException
import java.io.InputStream
import java.io.OutputStream
import java.util.Properties
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking

/**
 * What the app remembers when it is started again, also after a swipe from the recents.
 *
 * @param scope where the file is read and written. Until it ends, no other [KeptSettings] may use
 * the same file: DataStore refuses it.
 */
class KeptSettings(
    file: File,
    private val scope: CoroutineScope = CoroutineScope(SupervisorJob() + Dispatchers.IO),
) {
    private val kept = DataStoreFactory.create(SettingsSerializer, scope = scope) { file }

    /**
     * Null at the first start, and of another version of the app. Waits for the file, which is
     * small: screens that change once it is read would be worse.
     */
    fun read(): Settings? = try {
        runBlocking { kept.data.first() }
    } catch (e: IOException) {
        null.also { Log.w(TAG, "The settings cannot be read", e) }
    }

    /** Writes the choices in the background, in the order of the calls. */
    fun write(settings: Settings) {
        scope.launch(start = CoroutineStart.UNDISPATCHED) {
            try {
                kept.updateData { settings.choices }
            } catch (e: IOException) {
                Log.w(TAG, "The settings cannot be kept", e)
            }
        }
    }
}

private object SettingsSerializer : Serializer<Settings?> {
    override val defaultValue: Settings? = null

    override suspend fun readFrom(input: InputStream): Settings? = try {
        val texts = Properties().apply { load(input) }
        settingsOf(texts.stringPropertyNames().associateWith(texts::getProperty))
    } catch (_: IllegalArgumentException) {
        null // A broken escape.
    }

    override suspend fun writeTo(t: Settings?, output: OutputStream) {
        val texts = Properties()
        if (t != null) texts.putAll(textsOf(t))
        texts.store(output, null)
    }
}

private const val TAG = "KeptSettings"
