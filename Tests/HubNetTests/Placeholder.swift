import Testing
import HubNet
