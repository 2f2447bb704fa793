// The project for Android Studio and `./gradlew`. The command-line build is pom.xml; both
// compile the same source folders.
pluginManagement {
    repositories {
        google()
        mavenCentral()
        gradlePluginPortal()
    }
}

dependencyResolutionManagement {
    repositoriesMode.set(RepositoriesMode.FAIL_ON_PROJECT_REPOS)
    repositories {
        google()
        mavenCentral()
    }
}

rootProject.name = "keras-vit-demo"
include(":engine-api", ":core", ":testing", ":litert", ":keras-vit-android", ":app")
