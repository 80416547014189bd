plugins {
    id("com.android.application")
}

android {
    namespace = "dev.thimble.sample"
    compileSdk = 35
    defaultConfig {
        applicationId = "dev.thimble.sample"
        minSdk = 28
        targetSdk = 35
        versionCode = 1
        versionName = "0.1.0"
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_11
        targetCompatibility = JavaVersion.VERSION_11
    }
}

dependencies {
    implementation(project(":thimble"))
}
