plugins {
    alias(libs.plugins.kotlin.jvm)
    `maven-publish`
}

dependencies {
    testImplementation(platform(libs.junit.bom))
    testImplementation(libs.junit.jupiter)
    testImplementation(libs.kotlin.test.junit5)
    testRuntimeOnly(libs.junit.launcher)
}

publishing {
    publications.create<MavenPublication>("library") {
        artifactId = "keras-vit-engine-api"
        from(components["java"])
    }
}
