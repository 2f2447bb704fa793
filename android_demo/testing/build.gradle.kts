plugins {
    alias(libs.plugins.kotlin.jvm)
    `java-library`
}

dependencies {
    api(project(":core"))
    api(platform(libs.junit.bom))
    api(libs.junit.jupiter)
    api(libs.kotlin.test.junit5)
    implementation(libs.kotlinx.serialization.json)
}
