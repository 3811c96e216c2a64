// What checking one token costs a loop, whole: form, signature, claims and rights.
//
//   bench-token ALG PRIVATE PUBLIC [ALG PRIVATE PUBLIC …]     for HS256 both files hold the secret; prints "algorithm <tab> µs" for each
import Foundation
import HubBase
import HubToken

/// CPU time of this process in nanoseconds: what others do on the machine counts less than on the wall's clock.
func now() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
}

func stop(_ message: String) -> Never {
    FileHandle.standardError.write(Data((message + "\n").utf8))
    exit(2)
}

func read(_ path: String) -> Secret {
    guard let data = FileManager.default.contents(atPath: path) else { stop("bench-token: can't read \(path)") }
    return Secret([UInt8](data))
}

let arguments = Array(CommandLine.arguments.dropFirst())
guard !arguments.isEmpty, arguments.count % 3 == 0 else { stop("usage: bench-token ALG PRIVATE PUBLIC [ALG PRIVATE PUBLIC …]") }
let time: UInt64 = 1_950_000_000_000
let caps = #"{"room:*":["subscribe","publish","history"],"user:*":["watch"]}"#
let claims = #"{"sub":"alice","iat":1949999000,"exp":1950000600,"jti":"5f1c9b","caps":\#(caps)}"#

for place in stride(from: 0, to: arguments.count, by: 3) {
    guard let algorithm = TokenKey.Algorithm(rawValue: arguments[place]) else {
        stop("bench-token: no such algorithm: \(arguments[place])")
    }
    let signing = try TokenKey(id: "k", algorithm: algorithm, bytes: read(arguments[place + 1]), forSigning: true)
    let checking = try TokenKey(id: "k", algorithm: algorithm, bytes: read(arguments[place + 2]))
    let header = #"{"alg":"\#(algorithm.rawValue)","kid":"k"}"#
    let token = try TokenMinter.sign(header: Array(header.utf8), claims: Array(claims.utf8), key: signing)
    let verifier = TokenVerifier(keys: [checking])
    var batch = 8
    while true {
        let start = now()
        for _ in 0..<batch {
            guard case .success = verifier.verify(token, nowMilliseconds: time) else { stop("bench-token: its own token is refused") }
        }
        let took = now() - start
        if took >= 3e8 {
            print("\(algorithm.rawValue)\t\((took / Double(batch) / 100).rounded() / 10)")
            break
        }
        batch *= 2
    }
}
