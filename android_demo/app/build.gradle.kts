plugins {
    alias(libs.plugins.android.application)
    alias(libs.plugins.kotlin.compose)
}

android {
    namespace = "dev.kerasvit.demo"
    compileSdk = libs.versions.targetSdk.get().toInt()

    defaultConfig {
        applicationId = "dev.kerasvit.demo"
        minSdk = libs.versions.minSdk.get().toInt()
        targetSdk = libs.versions.targetSdk.get().toInt()
        versionCode = libs.versions.versionCode.get().toInt()
        versionName = libs.versions.versionName.get()
        testInstrumentationRunner = "androidx.test.runner.AndroidJUnitRunner"
        ndk {
            abiFilters += listOf("arm64-v8a", "x86_64")
        }
    }

    buildTypes {
        release {
            isMinifyEnabled = true
            proguardFiles(getDefaultProguardFile("proguard-android-optimize.txt"), "proguard-rules.pro")
        }
    }

    // The runtime; the command-line build has another.
    sourceSets["main"].kotlin.srcDir("src/litert/kotlin")

    // The bundles and samples that `keras-vit android` wrote replace the digits.
    if (file("own").isDirectory) sourceSets["main"].assets.setSrcDirs(listOf("own"))

    buildFeatures {
        compose = true
    }

    androidResources {
        // The app's language beside English, not all 85 of Compose.
        localeFilters += listOf("en", "zh-rCN")
        // A model must be stored uncompressed, so that the phone can map it into memory.
        noCompress += "tflite"
    }

    testOptions {
        unitTests.isIncludeAndroidResources = true
        unitTests.all {
            // LiteRT of Python's package ai-edge-litert, by the name that it has on a phone.
            it.systemProperty("jna.library.path", System.getenv("LITERT_FOLDER").orEmpty())
        }
    }
}

dependencies {
    implementation(project(":keras-vit-android"))
    implementation(libs.activity.compose)
    implementation(libs.compose.foundation)
    implementation(libs.compose.material3)
    testImplementation(project(":testing")) {
        // Robolectric runs on JUnit 4.
        exclude(group = "org.junit.jupiter")
        exclude(module = "kotlin-test-junit5")
    }
    testImplementation(libs.jna)
    testImplementation(libs.camera.core)
    testImplementation(libs.compose.test)
    testImplementation(libs.kotlinx.coroutines)
    testImplementation(libs.junit4)
    testImplementation(libs.kotlin.test)
    testImplementation(libs.mockito)
    testImplementation(libs.robolectric)
    // On a phone.
    androidTestImplementation(libs.androidx.test.runner)
    androidTestImplementation(libs.junit4)
}
