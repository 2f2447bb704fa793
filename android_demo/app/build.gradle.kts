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

    // Your own key: properties in ~/.gradle/gradle.properties or after -P, or variables of the
    // environment after ORG_GRADLE_PROJECT_. Without them the release is not signed.
    val store = providers.gradleProperty("releaseStoreFile").orNull
    if (store != null) {
        fun secret(name: String) = checkNotNull(providers.gradleProperty(name).orNull) {
            "Expected the Gradle property $name beside releaseStoreFile; README.md says how."
        }
        signingConfigs.create("release") {
            storeFile = file(store)
            storePassword = secret("releaseStorePassword")
            keyAlias = secret("releaseKeyAlias")
            keyPassword = secret("releaseKeyPassword")
        }
    }

    buildTypes {
        release {
            signingConfig = signingConfigs.findByName("release")
            isMinifyEnabled = true
            // Without Android's default rules: the dex that is tested (tools/dex.py) has none.
            proguardFiles("proguard-rules.pro")
        }
    }

    // The runtime; the command-line build has another.
    sourceSets["main"].kotlin.directories.add("src/litert/kotlin")

    // The bundles and samples that `keras-vit android` wrote replace the app's.
    if (file("own").isDirectory) {
        sourceSets["main"].assets.directories.clear()
        sourceSets["main"].assets.directories.add("own")
    }

    buildFeatures {
        compose = true
    }

    androidResources {
        // The app's language beside English, not all 85 of Compose.
        localeFilters += listOf("en", "zh-rCN")
        // Models and galleries must be stored uncompressed, so that phones can map them into memory.
        noCompress += listOf("tflite", "vectors.bin")
    }

    testOptions {
        unitTests.isIncludeAndroidResources = true
        unitTests.all {
            // Left to `test_app.py forms`.
            it.exclude("**/FormsTest*")
            it.maxHeapSize = "2g"
            // Android's own classes reach into Java's, as they may on a phone.
            it.jvmArgs("--add-opens", "java.base/java.io=ALL-UNNAMED")
            it.jvmArgs("--add-opens", "java.base/java.lang=ALL-UNNAMED")
        }
    }
}

if (android.signingConfigs.findByName("release") == null) {
    tasks.configureEach {
        if (name == "assembleRelease" || name == "bundleRelease") {
            doLast { logger.warn("This release is not signed. README.md says how to use a key.") }
        }
    }
}

dependencies {
    implementation(project(":keras-vit-android"))
    implementation(libs.activity.compose)
    implementation(libs.compose.foundation)
    implementation(libs.compose.material3)
    implementation(libs.datastore)
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
