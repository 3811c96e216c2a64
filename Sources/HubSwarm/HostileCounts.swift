/// What became of a run's hostile connections, out of its counters: what was theirs stands in no other figure of a report.
package struct HostileCounts: Sendable {
    package let welcomes: UInt64
    package let sent: UInt64
    /// Requests of theirs that the hub refused.
    package let errors: UInt64
    /// Sockets that never came to a request.
    package let muteOpened: UInt64
    /// Milliseconds: the longest that the hub had patience with one of those.
    package let muteLongest: UInt64
    /// Why they ended.
    package let ends: [String: UInt64]

    /// nil: there were none.
    package init?(_ measures: Measures) {
        welcomes = measures.counter(Measures.Counter.hostileWelcomes)
        sent = measures.counter(Measures.Counter.hostileSent)
        errors = measures.counter(Measures.Counter.hostileErrors)
        muteOpened = measures.counter(Measures.Counter.muteOpened)
        muteLongest = measures.counter(Measures.Counter.muteLongest)
        let prefix = Measures.Counter.hostileEnd("")
        ends = Dictionary(
            uniqueKeysWithValues: measures.counters.filter { $0.key.hasPrefix(prefix) && $0.value > 0 }
                .map { (String($0.key.dropFirst(prefix.count)), $0.value) })
        if welcomes == 0, sent == 0, errors == 0, muteOpened == 0, ends.isEmpty { return nil }
    }

    /// Name and value for people: what isn't of this run is left out. Without the ends.
    package var rows: [(name: String, value: String)] {
        var rows: [(name: String, value: String)] = []
        if welcomes > 0 { rows.append(("welcomed", ReportNumbers.count(welcomes))) }
        if sent > 0 { rows.append(("sent", ReportNumbers.count(sent))) }
        if errors > 0 { rows.append(("refused", ReportNumbers.count(errors))) }
        if muteOpened > 0 {
            rows.append(("mute sockets", ReportNumbers.count(muteOpened)))
            rows.append(("longest mute", ReportNumbers.time(Measures.nanoseconds(milliseconds: muteLongest))))
        }
        return rows
    }
}
