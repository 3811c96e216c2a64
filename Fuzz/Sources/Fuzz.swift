// Entry of the fuzz program: one binary, the target chosen by FUZZ_TARGET. `scripts/fuzz` builds and runs it (libFuzzer, address sanitizer).
import Glibc
import HubFuzzTargets

private let chosen: FuzzTarget = {
    guard let name = getenv("FUZZ_TARGET").map({ String(cString: $0) }), let target = FuzzTarget(rawValue: name) else {
        print("set FUZZ_TARGET to one of: \(FuzzTarget.allCases.map(\.rawValue).joined(separator: " "))")
        exit(2)
    }
    return target
}()

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    do { try chosen.run(UnsafeRawBufferPointer(start: data, count: count)) } catch { fatalError("\(error)") }
    return 0
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
