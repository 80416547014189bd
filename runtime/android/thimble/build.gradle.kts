// The Java API, and its native library for 64-bit Arm, which CMake builds from ../../cpp:
//   gradle :thimble:assembleRelease -PexecutorchSource=DIR -Pflatc=FILE
// DIR is a clone of ExecuTorch with third-party/flatbuffers, FILE a flatc of that version.
plugins {
    id("com.android.library")
}

fun setting(name: String): String =
    providers.gradleProperty(name).orNull ?: throw GradleException("set -P$name=...")

android {
    namespace = "dev.thimble"
    compileSdk = 35
    defaultConfig {
        minSdk = 28
        consumerProguardFiles("consumer-rules.pro")
        ndk { abiFilters += "arm64-v8a" }
        externalNativeBuild {
            cmake {
                targets += "thimble_jni"
                arguments += listOf(
                    "-DANDROID_STL=c++_static",
                    "-DTHIMBLE_EXECUTORCH_SOURCE=${setting("executorchSource")}",
                    "-DTHIMBLE_FLATC=${setting("flatc")}",
                )
            }
        }
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_11
        targetCompatibility = JavaVersion.VERSION_11
    }
    externalNativeBuild {
        cmake {
            path = file("../../cpp/CMakeLists.txt")
            version = "3.28.0+"
        }
    }
}
