// Entry of the fuzz program: one binary, the target chosen by FUZZ_TARGET. `scripts/fuzz` builds and runs it (libFuzzer, address sanitizer).
//
// A target takes any bytes. It fails by trapping: in the code under test, or in a check of its own (`require`) that two ways to the same
// answer agree.
import Glibc
import HubBase

enum FuzzTarget: String, CaseIterable {
    case head, chunked, frames, handshake, proxy, inflate, envelope, packed, payload, answer, publication, reply, events, control

    func run(_ bytes: UnsafeRawBufferPointer) {
        switch self {
        case .head: fuzzHead(bytes)
        case .chunked: fuzzChunked(bytes)
        case .frames: fuzzFrames(bytes)
        case .handshake: fuzzHandshake(bytes)
        case .inflate: fuzzInflate(bytes)
        case .envelope: fuzzEnvelope(bytes)
        case .packed: fuzzPacked(bytes)
        case .payload: fuzzPayload(bytes)
        case .answer: fuzzAnswer(bytes)
        case .publication: fuzzPublication(bytes)
        case .reply: fuzzReply(bytes)
        case .proxy: fuzzProxy(bytes)
        case .events: fuzzEvents(bytes)
        case .control: fuzzControl(bytes)
        }
    }
}

private let chosen: FuzzTarget = {
    guard let name = getenv("FUZZ_TARGET").map({ String(cString: $0) }), let target = FuzzTarget(rawValue: name) else {
        print("set FUZZ_TARGET to one of: \(FuzzTarget.allCases.map(\.rawValue).joined(separator: " "))")
        exit(2)
    }
    return target
}()

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    chosen.run(UnsafeRawBufferPointer(start: data, count: count))
    return 0
}

/// What must hold for every input.
func require(_ condition: Bool, _ what: StaticString) {
    guard condition else { fatalError("\(what)") }
}

// The package manager renames an executable's main after its target, so libFuzzer's own main isn't used: ours calls its driver.
@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
    _ count: UnsafeMutablePointer<CInt>, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
    _ target: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_cdecl("hub_fuzz_main")
public func fuzzMain(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) -> CInt {
    var count = count
    var arguments = arguments
    return runDriver(&count, &arguments) { fuzzOneInput($0, $1) }
}
