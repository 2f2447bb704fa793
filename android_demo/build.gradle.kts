import org.jetbrains.kotlin.gradle.dsl.HasConfigurableKotlinCompilerOptions
import org.jetbrains.kotlin.gradle.dsl.JvmTarget
import org.jetbrains.kotlin.gradle.dsl.KotlinBaseExtension
import org.jetbrains.kotlin.gradle.dsl.KotlinJvmExtension
import org.jetbrains.kotlin.gradle.dsl.KotlinVersion

plugins {
    alias(libs.plugins.android.application) apply false
    alias(libs.plugins.android.library) apply false
    // The Android plugins compile Kotlin with this version, too.
    alias(libs.plugins.kotlin.jvm) apply false
    alias(libs.plugins.kotlin.compose) apply false
}

// LiteRT of Python's package ai-edge-litert, which the tests run: $LITERT_FOLDER, or that of .venv.
val litertFolder = System.getenv("LITERT_FOLDER")
    ?: rootDir.resolve("../.venv/lib").listFiles().orEmpty()
        .map { it.resolve("site-packages/ai_edge_litert") }.firstOrNull { it.isDirectory }?.path

// Apps with this version of Kotlin can use the libraries.
fun KotlinBaseExtension.useOldestKotlin() {
    val oldest = rootProject.libs.versions.oldestKotlin.get()
    coreLibrariesVersion = oldest
    (this as HasConfigurableKotlinCompilerOptions<*>).compilerOptions {
        apiVersion.set(KotlinVersion.fromVersion(oldest.substringBeforeLast('.')))
        languageVersion.set(apiVersion)
    }
}

subprojects {
    group = "dev.kerasvit"
    version = rootProject.libs.versions.versionName.get()

    pluginManager.withPlugin("org.jetbrains.kotlin.jvm") {
        extensions.configure<JavaPluginExtension> {
            withSourcesJar()
            sourceCompatibility = JavaVersion.VERSION_1_8
            targetCompatibility = JavaVersion.VERSION_1_8
        }
        extensions.configure<KotlinJvmExtension> {
            useOldestKotlin()
            compilerOptions {
                jvmTarget.set(JvmTarget.JVM_1_8)
                // Methods that Java got after 8 are missing on old Android.
                freeCompilerArgs.add("-Xjdk-release=1.8")
            }
        }
        tasks.withType<Test>().configureEach { useJUnitPlatform() }
    }

    pluginManager.withPlugin("com.android.library") {
        extensions.configure<KotlinBaseExtension> { useOldestKotlin() }
    }

    tasks.withType<Test>().configureEach {
        if (litertFolder != null) {
            environment("LITERT_FOLDER", litertFolder)
            // The app finds LiteRT by the name that it has on a phone.
            systemProperty("jna.library.path", litertFolder)
        }
    }
}
