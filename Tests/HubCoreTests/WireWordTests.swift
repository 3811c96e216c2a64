import HubCore
import HubWire
import Testing

@Suite struct WireWordTests {
    @Test("every reason of the closed lists has a number in the short form")
    func reasons() {
        let words = Set(WireWord.allCases.map { "\($0)" })
        #expect(words.isSuperset(of: RecoveryFailure.allCases.map(\.rawValue)))
        #expect(words.isSuperset(of: ResyncReason.allCases.map(\.rawValue)))
    }
}
