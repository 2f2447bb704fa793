plugins {
    alias(libs.plugins.kotlin.jvm)
    `java-library`
    `maven-publish`
}

dependencies {
    api(project(":engine-api"))
    implementation(libs.jna)
    testImplementation(project(":testing"))
    testRuntimeOnly(libs.junit.launcher)
}

tasks.test {
    // Chromium's Vulkan device, which computes on the CPU.
    val chromium = "/usr/lib/chromium"
    environment("LD_LIBRARY_PATH", chromium)
    environment("VK_ICD_FILENAMES", "$chromium/vk_swiftshader_icd.json")
    environment("XDG_RUNTIME_DIR", temporaryDir.path)
}

publishing {
    publications.create<MavenPublication>("library") {
        artifactId = "keras-vit-litert"
        from(components["java"])
    }
}
