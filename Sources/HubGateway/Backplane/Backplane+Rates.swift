import HubBase
import HubCore
import HubWire

extension Backplane: RateStoreDelegate {
    func settled(_ result: Result<[Span], WireError>, tag: RequestTag) { post(.settled(result, tag: tag.low), to: tag.high) }
}
