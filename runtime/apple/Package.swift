// swift-tools-version: 5.9

import PackageDescription

// CThimble.xcframework is what `python -m runtime build --target apple` puts beside this file.
let package = Package(
    name: "Thimble",
    platforms: [.macOS(.v13), .iOS(.v16)],
    products: [.library(name: "Thimble", targets: ["Thimble"])],
    targets: [
        .binaryTarget(name: "CThimble", path: "CThimble.xcframework"),
        .target(name: "Thimble", dependencies: ["CThimble"]),
    ]
)
