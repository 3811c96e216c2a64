import Testing
import HubRedis
