// swift-tools-version: 6.2
// What each target is for, and which arrows are allowed: docs/architecture.md. Tests/TidyTests holds
// what the compiler can't check here.
import PackageDescription

// A warning is an error with the compilers that the tests have run with; a newer one may warn of more without breaking anyone's build.
#if compiler(<6.4)
let warnings: [SwiftSetting] = [.treatAllWarnings(as: .error)]
#else
let warnings: [SwiftSetting] = []
#endif
let strict: [SwiftSetting] = [.swiftLanguageMode(.v6), .enableUpcomingFeature("ExistentialAny")] + warnings

func library(_ name: String, _ dependencies: [Target.Dependency], resources: [Resource] = []) -> Target {
    .target(name: name, dependencies: dependencies, resources: resources, swiftSettings: strict)
}

func tool(_ name: String, _ dependencies: [Target.Dependency], path: String? = nil) -> Target {
    .executableTarget(name: name, dependencies: dependencies, path: path, swiftSettings: strict)
}

// What is tested is optimized as what is delivered; optimizing the expectations too costs minutes
// (docs/decisions/0347-expectations-aren-t-optimized.md).
// Some compute: simulations, and models beside what they model.
let unoptimized: [SwiftSetting] = [.unsafeFlags(["-Onone"])]

func tests(_ name: String, _ dependencies: [Target.Dependency], optimized: Bool = false) -> Target {
    .testTarget(name: name, dependencies: dependencies, swiftSettings: strict + (optimized ? [] : unoptimized))
}

let package = Package(
    name: "hub",
    products: [
        .executable(name: "hubd", targets: ["hubd"]),
        .executable(name: "hubctl", targets: ["hubctl"]),
        .executable(name: "hub-swarm", targets: ["hub-swarm"]),
        .library(name: "HubClient", targets: ["HubClient"]),
        .library(name: "HubWire", targets: ["HubWire"]),
    ],
    targets: [
        // Executables: arguments and wiring, no logic.
        tool("hubd", ["HubGateway"]),
        tool("hubctl", ["HubConsole", "HubToken", "HubClientNet", "HubClient", "HubNet", "HubWire", "HubBase", "CHubShims"]),
        tool("hub-swarm", ["HubSwarm", "HubCheck", "HubToken", "HubClientNet", "HubClient", "HubNet", "HubWire", "HubBase", "CHubShims"]),

        // Shells: join the pure core to loops, sockets and Redis.
        library(
            "HubGateway",
            ["HubBase", "HubCore", "HubWire", "HubToken", "HubNet", "HubRedis", "HubFetch", "COpenSSL", "CHubShims"],
            resources: [.embedInCode("Page/index.html"), .embedInCode("Page/hub.js")]),
        library(
            "HubRedis", ["HubBase", "HubCore", "HubWire", "HubNet", "CHiredis", "COpenSSL", "CHubShims"],
            resources: [.embedInCode("Lua")]),
        library("HubNet", ["HubBase", "CHubShims", "COpenSSL", "CZlib"]),
        // What a node asks of others over HTTP: libcurl on a thread of its own.
        library("HubFetch", ["HubBase", "HubNet", "CCurl", "CHubShims"]),
        library("HubClientNet", ["HubBase", "HubClient", "HubWire", "HubNet", "CHubShims", "CCurl"]),

        // Tokens: checked by the gateway, minted by hubctl.
        library("HubToken", ["HubBase", "HubCore", "HubWire", "COpenSSL"]),

        // Pure: no socket, no clock, no chance of their own.
        library("HubCore", ["HubBase", "HubWire"]),
        library("HubClient", ["HubBase", "HubWire"]),
        // What hubctl shows: answers of the hub as lines for people.
        library("HubConsole", ["HubBase", "HubWire"]),
        // The swarm's judgement: schedule, histogram, checker, report.
        library("HubSwarm", ["HubBase", "HubClient", "HubCheck", "HubWire"]),
        // Whether what clients were promised came: judged afterwards, from their journals.
        library("HubCheck", ["HubBase", "HubWire"]),
        library("HubWire", ["HubBase"]),
        library("HubBase", []),

        // C.
        .target(name: "CHubShims", cSettings: [.define("_GNU_SOURCE")]),
        .systemLibrary(name: "CHiredis", providers: [.apt(["libhiredis-dev"])]),
        .systemLibrary(name: "COpenSSL", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CZlib", providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(name: "CCurl", providers: [.apt(["libcurl4-openssl-dev"])]),

        // Tests.
        tests("HubBaseTests", ["HubBase"]),
        tests("HubWireTests", ["HubWire", "HubBase"]),
        tests("HubCoreTests", ["HubCore", "HubWire", "HubBase", "HubContracts"], optimized: true),
        // HubFetch: the other side of outgoing TLS is our own server.
        tests("HubNetTests", ["HubNet", "HubFetch", "HubBase", "CHubShims", "COpenSSL", "CZlib"], optimized: true),
        tests("HubFetchTests", ["HubFetch", "HubNet", "HubBase"]),
        tests("HubRedisTests", ["HubRedis", "HubCore", "HubNet", "HubWire", "HubBase", "HubContracts", "CHubShims"]),
        tests("HubGatewayTests", ["HubGateway", "HubCore", "HubNet", "HubWire", "HubToken", "HubBase", "CHubShims"]),
        tests("HubTokenTests", ["HubToken", "HubCore", "HubWire", "HubBase"]),
        tests("HubClientTests", ["HubClient", "HubWire", "HubBase"]),
        tests("HubClientNetTests", ["HubClientNet", "HubClient", "HubNet", "HubWire", "HubBase"]),
        tests("HubSwarmTests", ["HubSwarm", "HubCheck", "HubClient", "HubWire", "HubBase"]),
        tests("HubCheckTests", ["HubCheck", "HubWire", "HubBase"]),
        tests("SimulationTests", ["HubCheck", "HubRedis", "HubCore", "HubWire", "HubBase"], optimized: true),
        tests("HubConsoleTests", ["HubConsole", "HubBase"]),
        tests("TidyTests", []),
        // The fuzzed parsers' corpora, replayed.
        tests("FuzzTests", ["HubFuzzTargets"]),
        .target(
            name: "HubFuzzTargets", dependencies: ["HubBase", "HubCore", "HubNet", "HubWire", "HubRedis", "HubToken"], path: "Fuzz/Targets",
            swiftSettings: strict),
        // One suite for each pair of implementations; it doesn't know which one it tests.
        .target(
            name: "HubContracts", dependencies: ["HubCore", "HubWire", "HubBase"], path: "Tests/HubContracts",
            swiftSettings: strict + unoptimized),

        // Benchmarks: one program for each hot path.
        tool("bench-net", ["HubNet", "HubBase", "CHubShims"], path: "Benchmarks/Net"),
        tool("bench-paths", ["HubToken", "HubRedis", "HubCore", "HubNet", "HubWire", "HubBase"], path: "Benchmarks/Paths"),
        tool("bench-count", ["CCounting", "HubGateway", "HubCore", "HubNet"], path: "Benchmarks/Counting"),
        tool(
            "bench-presence", ["HubRedis", "HubCore", "HubNet", "HubWire", "HubBase", "CHubShims"], path: "Benchmarks/PresenceScale"),
        tool("bench-token", ["HubToken", "HubBase"], path: "Benchmarks/Token"),
        .target(name: "CCounting", path: "Benchmarks/CCounting"),
        .executableTarget(
            name: "bench-scan", dependencies: ["HubWire", "HubBase"], path: "Benchmarks/Scan",
            exclude: ["peers", "run.sh", "table.py", "envelopes.txt"], swiftSettings: strict),
    ]
)

// Fuzzing compiles the libraries with coverage, which only makes sense for that: scripts/fuzz sets HUB_FUZZ.
if Context.environment["HUB_FUZZ"] != nil {
    package.targets.append(
        .executableTarget(
            name: "hub-fuzz", dependencies: ["HubFuzzTargets"], path: "Fuzz/Sources",
            swiftSettings: strict + [.unsafeFlags(["-parse-as-library"])], linkerSettings: [.unsafeFlags(["-sanitize=fuzzer,address"])]))
}
