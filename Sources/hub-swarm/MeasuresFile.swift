import Foundation
import HubBase
import HubSwarm

/// Measures as files and frames. Foundation's JSON: it's read and written once a run, and once a second between processes.
enum MeasuresFile {
    static func encode(_ value: some Encodable) throws(CommandLineError) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do { return [UInt8](try encoder.encode(value)) } catch { throw CommandLineError("measures can't be written: \(error)") }
    }

    /// A sentence says what is wrong, with the place in the file.
    static func decode<Value: Decodable>(_ type: Value.Type, _ bytes: [UInt8]) throws(CommandLineError) -> Value {
        do { return try JSONDecoder().decode(type, from: Data(bytes)) } catch let error as DecodingError {
            throw CommandLineError(sentence(error))
        } catch {
            throw CommandLineError("it isn't JSON")
        }
    }

    private static func sentence(_ error: DecodingError) -> String {
        func place(_ context: DecodingError.Context) -> String {
            context.codingPath.isEmpty
                ? "" : context.codingPath.map { $0.intValue.map { "[\($0)]" } ?? $0.stringValue }.joined(separator: ".") + ": "
        }
        switch error {
        case .keyNotFound(let key, let context): return place(context) + "\(key.stringValue) is missing"
        case .typeMismatch(_, let context), .valueNotFound(_, let context): return place(context) + "not of the kind that belongs there"
        case .dataCorrupted(let context): return place(context) + context.debugDescription
        @unknown default: return "it can't be read"
        }
    }

    static func read(_ path: String) throws(CommandLineError) -> Measures {
        guard let handle = FileHandle(forReadingAtPath: path) else {
            throw CommandLineError("\(path) can't be read: \(String(cString: strerror(errno)))")
        }
        var bytes: [UInt8] = []
        do {
            while let part = try handle.read(upToCount: 1 << 20), !part.isEmpty {
                bytes += part
                guard bytes.count <= Measures.textMax else {
                    throw CommandLineError("\(path) has more than \(Measures.textMax >> 20) MiB: no report of hub-swarm")
                }
            }
        } catch let error as CommandLineError {
            throw error
        } catch {
            throw CommandLineError("\(path) can't be read: \(error.localizedDescription)")
        }
        do throws(CommandLineError) { return try decode(Measures.self, bytes) } catch {
            throw CommandLineError("\(path) isn't a report of hub-swarm --save: \(error)")
        }
    }

    /// In steps twice as long where a file would be too large to be read again.
    static func write(_ measures: Measures, to path: String) throws(CommandLineError) {
        var measures = measures
        var bytes = try encode(measures)
        while bytes.count > Measures.textMax, measures.series.count > 1 {
            measures.coarsen()
            bytes = try encode(measures)
        }
        try write(bytes, to: path)
    }

    /// Whole or not at all: a report that was cut off would look like one.
    static func write(_ bytes: [UInt8], to path: String) throws(CommandLineError) {
        do { try Data(bytes).write(to: URL(fileURLWithPath: path), options: .atomic) } catch {
            throw CommandLineError("\(path) can't be written: \(error.localizedDescription)")
        }
    }

    /// Said before a run, not after an hour of it: whether its files can be written.
    static func check(_ options: ReportOptions) throws(CommandLineError) {
        for path in [options.page, options.measures].compactMap({ $0 }) {
            let url = URL(fileURLWithPath: path)
            var isFolder: ObjCBool = false
            if FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), isFolder.boolValue {
                throw CommandLineError("\(path) is a folder; name a file")
            }
            let folder = url.deletingLastPathComponent().path
            guard access(folder, W_OK) == 0 else { throw CommandLineError("\(path) can't be written: \(String(cString: strerror(errno)))") }
        }
    }
}
