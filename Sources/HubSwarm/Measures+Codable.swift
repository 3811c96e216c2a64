import HubBase

/// Measures in files and between processes: JSON with a version. Reading believes nothing: what doesn't add up is refused with the name of
/// the field, before it's merged with anything. The length of the text is the reader's to bound (`textMax`).
extension Measures: Codable {
    /// Bytes of one report.
    package static let textMax = 64 << 20

    private enum Key: String, CodingKey {
        case version, scenario, seed, options, environment, workers, bots, began, date, warmUp, measured, ended, step, series, lanes,
            counters,
            errors, ends, violations, findings, missing, interrupted, hubCores, machineCores, summary
    }

    private struct LaneEntry: Codable {
        var kind: String
        var population: Population
        var latency: SparseHistogram
    }

    package func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: Key.self)
        try fields.encode(Self.version, forKey: .version)
        try fields.encode(scenario, forKey: .scenario)
        try fields.encode(seed, forKey: .seed)
        try fields.encode(options, forKey: .options)
        try fields.encode(environment, forKey: .environment)
        try fields.encode(workers, forKey: .workers)
        try fields.encode(bots, forKey: .bots)
        try fields.encode(began.nanoseconds, forKey: .began)
        try fields.encode(date, forKey: .date)
        try fields.encode(warmUp.nanoseconds, forKey: .warmUp)
        try fields.encode(measured.nanoseconds, forKey: .measured)
        try fields.encode(ended.nanoseconds, forKey: .ended)
        try fields.encode(step, forKey: .step)
        try fields.encode(series, forKey: .series)
        try fields.encode(
            lanes.sorted { $0.key < $1.key }.map { LaneEntry(kind: $0.key.kind, population: $0.key.population, latency: $0.value) },
            forKey: .lanes)
        try fields.encode(counters, forKey: .counters)
        try fields.encode(errors, forKey: .errors)
        try fields.encode(ends, forKey: .ends)
        try fields.encode(violations, forKey: .violations)
        try fields.encode(findings, forKey: .findings)
        try fields.encode(missing, forKey: .missing)
        try fields.encode(isInterrupted, forKey: .interrupted)
        try fields.encodeIfPresent(hubCores, forKey: .hubCores)
        try fields.encodeIfPresent(machineCores, forKey: .machineCores)
    }

    package init(from decoder: any Decoder) throws {
        let reader = Reader(fields: try decoder.container(keyedBy: Key.self))
        let version = try reader.fields.decode(UInt64.self, forKey: .version)
        guard version == Self.version else {
            throw reader.refuse(.version, "measures of version \(version); this program reads version \(Self.version)")
        }
        self.init()
        scenario = try reader.text(.scenario)
        seed = try reader.fields.decode(UInt64.self, forKey: .seed)
        options = try reader.pairs(.options)
        environment = try reader.pairs(.environment)
        workers = try reader.count(.workers)
        bots = try reader.count(.bots)
        began = Instant(nanoseconds: try reader.count(.began))
        date = try reader.count(.date)
        warmUp = Span(nanoseconds: try reader.count(.warmUp))
        measured = Span(nanoseconds: try reader.count(.measured))
        ended = Span(nanoseconds: try reader.count(.ended))
        step = try reader.count(.step)
        guard step > 0, step <= 1 << 16, step & (step - 1) == 0 else {
            throw reader.refuse(.step, "\(step) s isn't a power of two up to 65536")
        }
        let points = try reader.fields.decode([Point].self, forKey: .series)
        guard points.count <= Self.pointsMax else { throw reader.refuse(.series, "\(points.count) points; at most \(Self.pointsMax)") }
        replaceSeries(points)
        let entries = try reader.fields.decode([LaneEntry].self, forKey: .lanes)
        guard entries.count <= 64 else { throw reader.refuse(.lanes, "\(entries.count) kinds of latency; at most 64") }
        for entry in entries {
            guard entry.kind.utf8.count <= Self.nameLengthMax else { throw reader.refuse(.lanes, "a name is too long") }
            lanes[Lane(entry.kind, entry.population), default: SparseHistogram()].merge(entry.latency)
        }
        counters = try reader.counts(.counters)
        errors = try reader.counts(.errors)
        ends = try reader.counts(.ends)
        violations = try reader.counts(.violations)
        findings = try reader.texts(.findings)
        missing = try reader.texts(.missing)
        isInterrupted = try reader.fields.decode(Bool.self, forKey: .interrupted)
        hubCores = try reader.cores(.hubCores)
        machineCores = try reader.cores(.machineCores)
    }

    private struct Reader {
        let fields: KeyedDecodingContainer<Key>

        func refuse(_ key: Key, _ why: String) -> DecodingError { .dataCorruptedError(forKey: key, in: fields, debugDescription: why) }

        func count(_ key: Key) throws -> UInt64 {
            let value = try fields.decode(UInt64.self, forKey: key)
            guard value <= Measures.countMax else { throw refuse(key, "\(value) is too large") }
            return value
        }

        /// Of a file from before there were any: nil.
        func cores(_ key: Key) throws -> UInt64? {
            guard fields.contains(key) else { return nil }
            let value = try fields.decode(UInt64.self, forKey: key)
            guard (1...Measures.coresMax).contains(value) else { throw refuse(key, "\(value) isn't from 1 to \(Measures.coresMax)") }
            return value
        }

        func text(_ key: Key) throws -> String {
            let text = try fields.decode(String.self, forKey: key)
            guard text.utf8.count <= Measures.nameLengthMax else { throw refuse(key, "longer than \(Measures.nameLengthMax) bytes") }
            return text
        }

        func texts(_ key: Key) throws -> [String] {
            let texts = try fields.decode([String].self, forKey: key)
            guard texts.count <= Measures.findingsMax, texts.allSatisfy({ $0.utf8.count <= 8 * Measures.nameLengthMax }) else {
                throw refuse(key, "more than \(Measures.findingsMax) texts, or one that is too long")
            }
            return texts
        }

        func pairs(_ key: Key) throws -> [[String]] {
            let pairs = try fields.decode([[String]].self, forKey: key)
            guard pairs.count <= Measures.namesMax else { throw refuse(key, "more than \(Measures.namesMax) rows") }
            for pair in pairs {
                guard pair.count == 2, pair.allSatisfy({ $0.utf8.count <= 8 * Measures.nameLengthMax }) else {
                    throw refuse(key, "a row isn't a name and a value, or is too long")
                }
            }
            return pairs
        }

        func counts(_ key: Key) throws -> [String: UInt64] {
            let counts = try fields.decode([String: UInt64].self, forKey: key)
            guard counts.count <= Measures.namesMax else { throw refuse(key, "more than \(Measures.namesMax) names") }
            for (name, count) in counts {
                guard name.utf8.count <= Measures.nameLengthMax else {
                    throw refuse(key, "a name is longer than \(Measures.nameLengthMax) bytes")
                }
                guard count <= Measures.countMax else { throw refuse(key, "\(count) is too large") }
            }
            return counts
        }
    }
}

extension Measures.Point: Codable {
    private enum Key: String, CodingKey {
        case connected, sent, acknowledged, delivered, errors, latency, lag, ownCPU, hubCPU, redisCPU, busiestCPU
    }

    package func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: Key.self)
        try fields.encode(connected, forKey: .connected)
        try fields.encode(sent, forKey: .sent)
        try fields.encode(acknowledged, forKey: .acknowledged)
        try fields.encode(delivered, forKey: .delivered)
        try fields.encode(errors, forKey: .errors)
        try fields.encode(latency, forKey: .latency)
        try fields.encode(lag, forKey: .lag)
        try fields.encodeIfPresent(ownCPU, forKey: .ownCPU)
        try fields.encodeIfPresent(hubCPU, forKey: .hubCPU)
        try fields.encodeIfPresent(redisCPU, forKey: .redisCPU)
        try fields.encodeIfPresent(busiestCPU, forKey: .busiestCPU)
    }

    package init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: Key.self)
        func checked(_ value: UInt64, _ key: Key) throws -> UInt64 {
            guard value <= Measures.countMax else {
                throw DecodingError.dataCorruptedError(forKey: key, in: fields, debugDescription: "\(value) is too large")
            }
            return value
        }
        func count(_ key: Key) throws -> UInt64 { try checked(try fields.decode(UInt64.self, forKey: key), key) }
        func optional(_ key: Key) throws -> UInt64? {
            guard let value = try fields.decodeIfPresent(UInt64.self, forKey: key) else { return nil }
            return try checked(value, key)
        }
        self.init()
        connected = try count(.connected)
        sent = try count(.sent)
        acknowledged = try count(.acknowledged)
        delivered = try count(.delivered)
        errors = try count(.errors)
        latency = try fields.decode(SparseHistogram.self, forKey: .latency)
        lag = try count(.lag)
        ownCPU = try optional(.ownCPU)
        hubCPU = try optional(.hubCPU)
        redisCPU = try optional(.redisCPU)
        busiestCPU = try optional(.busiestCPU)
    }
}
