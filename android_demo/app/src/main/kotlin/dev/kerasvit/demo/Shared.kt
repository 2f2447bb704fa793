package dev.kerasvit.demo

import android.content.ContentResolver
import android.content.Intent
import android.net.Uri
import android.os.BadParcelableException
import androidx.core.content.IntentCompat

/** The picture that another app shares; null if there is none. */
internal fun sharedPicture(intent: Intent): Uri? = intent
    .takeIf { it.action == Intent.ACTION_SEND && it.type?.startsWith("image/") == true }
    ?.let(::stream)

/** The zip that another app shares or opens with this one; null if there is none. */
internal fun sharedZip(intent: Intent): Uri? = when (intent.action) {
    Intent.ACTION_SEND -> if (intent.type in ZIP_TYPES) stream(intent) else null
    // Without a type, Android asked the provider for it before it chose this app.
    Intent.ACTION_VIEW ->
        if (intent.type == null || intent.type in ZIP_TYPES) intent.data?.takeIf(::isProvided)
        else null
    else -> null
}

/** What zips are said to be; some apps do not know what a file is. */
internal val ZIP_TYPES =
    arrayOf("application/zip", "application/x-zip-compressed", "application/octet-stream")

private fun stream(intent: Intent): Uri? = try {
    IntentCompat.getParcelableExtra(intent, Intent.EXTRA_STREAM, Uri::class.java)
} catch (_: BadParcelableException) {
    null
}?.takeIf(::isProvided)

// By the path of a file, an app could make this one read its own files.
private fun isProvided(uri: Uri): Boolean = uri.scheme == ContentResolver.SCHEME_CONTENT
