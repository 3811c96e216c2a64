import Foundation
import HubGateway

exit(HubdProgram.run(arguments: Array(CommandLine.arguments.dropFirst()), environment: ProcessInfo.processInfo.environment))
