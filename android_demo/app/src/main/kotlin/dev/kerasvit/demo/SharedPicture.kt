package dev.kerasvit.demo

import android.content.ContentResolver
import android.content.Intent
import android.net.Uri
import android.os.BadParcelableException
import androidx.core.content.IntentCompat

/**
 * The picture that another app shares; null if there is none. Only what a content provider gives:
 * by the path of a file, an app could make this one read its own files.
 */
internal fun sharedPicture(intent: Intent): Uri? {
    if (intent.action != Intent.ACTION_SEND) return null
    if (intent.type?.startsWith("image/") != true) return null
    val uri = try {
        IntentCompat.getParcelableExtra(intent, Intent.EXTRA_STREAM, Uri::class.java)
    } catch (_: BadParcelableException) {
        null
    }
    return uri?.takeIf { it.scheme == ContentResolver.SCHEME_CONTENT }
}
