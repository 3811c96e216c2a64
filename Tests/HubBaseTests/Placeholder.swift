import Testing
import HubBase
