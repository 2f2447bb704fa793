plugins {
    alias(libs.plugins.android.application) apply false
    // Also the version of the Kotlin that the Android plugin has built in.
    alias(libs.plugins.kotlin.jvm) apply false
}
