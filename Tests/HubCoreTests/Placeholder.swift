import Testing
import HubCore
