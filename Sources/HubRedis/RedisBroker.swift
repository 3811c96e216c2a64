import HubBase
import HubCore

