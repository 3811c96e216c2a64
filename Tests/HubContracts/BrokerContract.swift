import HubBase
import HubCore
import HubWire
import Testing

/// What every broker promises. Each check makes its own channels, so that all can run on one backend.
package enum BrokerContract {
    /// `brief` remembers a message id for 300 ms only.
    package static var namespaces: [String: HistoryOptions] {
        var brief = HistoryOptions()
        brief.dedup = .milliseconds(300)
        return ["": HistoryOptions(), "brief": brief]
    }
}
