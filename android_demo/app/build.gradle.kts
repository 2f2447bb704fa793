plugins {
    alias(libs.plugins.android.application)
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

    // The bundles and samples that `keras-vit android` wrote replace the digits.
    if (file("own").isDirectory) sourceSets["main"].assets.setSrcDirs(listOf("own"))

    androidResources {
        // A model must be stored uncompressed, so that the phone can map it into memory.
        noCompress += "tflite"
    }

    testOptions {
        unitTests.isIncludeAndroidResources = true
    }
}

dependencies {
    implementation(project(":keras-vit-android"))
    testImplementation(project(":engine-jvm"))
    testImplementation(project(":testing"))
    testImplementation(libs.camera.core)
    testImplementation(libs.kotlinx.coroutines)
    testImplementation(libs.junit4)
    testImplementation(libs.kotlin.test)
    testImplementation(libs.mockito)
    testImplementation(libs.robolectric) {
        // src/test holds the few classes that Robolectric needs of these, for both builds.
        exclude(group = "androidx.test", module = "monitor")
        exclude(group = "androidx.test.espresso", module = "espresso-idling-resource")
    }
}
