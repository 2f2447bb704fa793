plugins {
    alias(libs.plugins.android.library)
    `maven-publish`
}

android {
    namespace = "dev.kerasvit.android"
    compileSdk = libs.versions.targetSdk.get().toInt()

    defaultConfig {
        minSdk = libs.versions.minSdk.get().toInt()
        consumerProguardFiles("consumer-rules.pro")
    }

    publishing {
        singleVariant("release") {
            withSourcesJar()
        }
    }
}

dependencies {
    api(project(":core"))
    // JNA is an AAR here, with native libraries for Android.
    api(project(":litert")) { exclude(module = "jna") }
    implementation(variantOf(libs.jna) { artifactType("aar") })
    implementation(libs.kotlinx.coroutines)
    // The native library alone: Google's Kotlin classes bring permissions and Play's libraries. No
    // other version: its C structures are read.
    implementation(libs.litert) {
        exclude(module = "litert-api")
        version { strictly(libs.versions.litert.get()) }
    }
    implementation(libs.litert.gpu) { exclude(module = "litert-api") }
    compileOnly(libs.camera.core)
}

publishing {
    publications.register<MavenPublication>("library") {
        artifactId = "keras-vit-android"
        afterEvaluate {
            from(components["release"])
        }
    }
}
