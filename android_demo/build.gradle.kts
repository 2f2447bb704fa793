plugins {
    alias(libs.plugins.android.application) apply false
    alias(libs.plugins.android.library) apply false
    // Also the version of the Kotlin that the Android plugins have built in.
    alias(libs.plugins.kotlin.jvm) apply false
    alias(libs.plugins.kotlin.compose) apply false
}

subprojects {
    group = "dev.kerasvit"
    version = rootProject.libs.versions.versionName.get()
}
