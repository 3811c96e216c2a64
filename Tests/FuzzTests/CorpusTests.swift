import Foundation
import HubFuzzTargets
import Testing

/// Every input of `Fuzz/corpus` once more, without a fuzzer: what has failed once stays tested. `scripts/fuzz` looks for new ones.
@Suite struct CorpusTests {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("Fuzz/corpus")

    private static func files(_ target: FuzzTarget) throws -> [URL] {
        try FileManager.default.contentsOfDirectory(at: folder.appendingPathComponent(target.rawValue), includingPropertiesForKeys: nil)
            .sorted { $0.path < $1.path }
    }

    @Test("no input of a target's corpus traps or finds two answers", arguments: FuzzTarget.allCases)
    func replay(target: FuzzTarget) throws {
        for file in try Self.files(target) {
            let bytes = [UInt8](try Data(contentsOf: file))
            #expect(throws: Never.self, "\(target) \(file.lastPathComponent)") { try bytes.withUnsafeBytes { try target.run($0) } }
        }
    }

    @Test("nothing and single bytes are inputs, too", arguments: FuzzTarget.allCases)
    func smallest(target: FuzzTarget) throws {
        try target.run(UnsafeRawBufferPointer(start: nil, count: 0))
        for byte in UInt8.min...UInt8.max { try withUnsafeBytes(of: byte) { try target.run($0) } }
    }

    @Test("every target has a corpus: seeds that name their case, few and small files", arguments: FuzzTarget.allCases)
    func sizes(target: FuzzTarget) throws {
        let files = try Self.files(target)
        let bytes = try files.reduce(0) { try $0 + Data(contentsOf: $1).count }
        #expect(files.count >= 5 && files.count <= 100, "\(target) has \(files.count) files")
        #expect(bytes <= 200 * 1024, "\(target) has \(bytes) bytes")
    }

    @Test("no folder is left over from a target that has gone")
    func folders() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
        #expect(Set(names) == Set(FuzzTarget.allCases.map(\.rawValue)))
    }
}
