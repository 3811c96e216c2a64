import HubBase

/// The connections' side of permessage-deflate: what is agreed to, and the form in which frames leave.
extension NetLoop {
    // MARK: Agreeing

    /// Chooses from what the client offers; nil: nothing. The connection owns contexts if the client lets it, and the budget has room.
    func agreeToDeflate(
        _ request: borrowing HTTPRequest, _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>
    ) -> DeflateAgreement? {
        let budget = options.limits.deflate.contexts
        guard var agreement = DeflateAgreement.negotiate(request, options.limits.deflate, takesOver: budget.limit > 0) else { return nil }
        let cost = Contexts.cost(agreement)
        if cost > 0 && !(budget.take(cost) && own(agreement, index, cost)) { agreement.takesNothingOver() }
        connection.pointee.form = WireForm(agreement)
        state.pointee.counters.deflateAgreed += 1
        return agreement
    }

    private func own(_ agreement: DeflateAgreement, _ index: UInt32, _ cost: Int) -> Bool {
        if state.pointee.compression.own(agreement, index, bytes: cost) { return true }
        options.limits.deflate.contexts.giveBack(cost)
        return false
    }

    func giveBackContexts(_ index: UInt32) {
        options.limits.deflate.contexts.giveBack(state.pointee.compression.disown(index))
    }

    // MARK: Out

    /// Of a plain, unmasked frame.
    private static func payloadBytes(_ range: ArenaRange) -> Int {
        let count = Int(range.end - range.start)
        return count - (count < 128 ? 2 : count < 65540 ? 4 : 10)
    }

    /// A message to one connection alone has nobody to share the work with: it must be worth more.
    private static let onlyFactor = 4

    /// Where a frame lies in the form that a connection takes. For those without a context of their own it's deflated once a turn and window,
    /// when the first of them asks.
    @inline(never)
    func range(of frame: OutFrame, for index: UInt32, _ connection: UnsafeMutablePointer<Connection>) -> ArenaRange {
        let form = connection.pointee.form
        if form == .events { return event(of: frame, for: connection) }
        let plain = ArenaRange(start: frame.start, end: frame.start + frame.count)
        if form.isPlain || Self.payloadBytes(plain) < options.limits.deflate.minimumBytes { return plain }
        if form.ownsDeflater { return deflate(plain, for: index, form) }
        if let twin = state.pointee.compression.twins.find(frame.number, form) { return twin }
        let twin = deflate(plain, for: index, form)
        state.pointee.compression.twins.note(twin, frame.number, form)
        // It stands and falls with the plain form.
        if twin != plain { state.pointee.notes.copy(of: plain.start, to: twin.start) }
        return twin
    }

    /// The same for a frame that nobody else gets: in the deflated form only that stays in memory.
    @inline(never)
    func range(ofOnly plain: ArenaRange, for index: UInt32, _ connection: UnsafeMutablePointer<Connection>) -> ArenaRange {
        let form = connection.pointee.form
        if form == .events { return event(ofOnly: plain) }
        let minimum = options.limits.deflate.minimumBytes * (form.ownsDeflater ? 1 : Self.onlyFactor)
        guard Self.payloadBytes(plain) >= minimum else { return plain }
        let range = deflate(plain, for: index, form)
        if range != plain && Int(plain.end) == state.pointee.arena.count {
            state.pointee.arena.removeLast(Int(plain.end - plain.start))
        }
        return range
    }

    /// The plain range again when deflating gains nothing.
    private func deflate(_ plain: ArenaRange, for index: UInt32, _ form: WireForm) -> ArenaRange {
        let frame = state.pointee.bytes(from: plain.start, to: plain.end)
        let range =
            form.ownsDeflater
            ? state.pointee.compression.deflate(frame, owner: index)
            : state.pointee.compression.deflate(frame, windowBits: form.windowBits)
        guard let range else { return plain }
        state.pointee.counters.deflated += 1
        state.pointee.counters.deflateBytesIn += UInt64(plain.end - plain.start)
        state.pointee.counters.deflateBytesOut += UInt64(range.end - range.start)
        return range
    }
}
