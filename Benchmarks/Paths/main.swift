// What the hot paths cost alone, one at a time: no socket, no other thread.
//
//   bench-paths                    CPU nanoseconds of each path, the median of five rounds
//   bench-paths NAME [TIMES]       one of them, run so many times and no more, for a count of its instructions:
//                                  valgrind --tool=callgrind .build/release/bench-paths scan 10000
import Glibc

let arguments = CommandLine.arguments
let paths = framePaths() + hubPaths()
if arguments.count > 1 {
    guard let path = paths.first(where: { $0.name == arguments[1] }) else {
        print("usage: bench-paths [\(paths.map(\.name).joined(separator: "|")) [TIMES]]")
        exit(2)
    }
    let times = arguments.count > 2 ? Int(arguments[2]) ?? 10_000 : 10_000
    print("\(path.name): \(path.what), \(times) times; \(path.run(times))")
} else {
    for path in paths { print("\(path.name)\t\(path.nanoseconds())\t\(path.what)") }
}
