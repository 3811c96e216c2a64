import Glibc
import HubBase
import HubClient
import HubClientNet
import HubConsole
import HubNet

/// The hub that a command talks to: its address, the key, and the HTTP exchange.
struct Hub {
    let url: HubURL
    let trust: ServerTrust
    private let key: Secret?

    init(_ arguments: CommandLineArguments) throws(Failure) {
        let text = arguments.value("url") ?? getenv("HUB_URL").map { String(cString: $0) } ?? "http://127.0.0.1:8080"
        do throws(HubURL.Malformed) {
            url = try HubURL(text)
        } catch {
            throw .usage("\(arguments.has("url") ? "--url" : "HUB_URL"): \(error)")
        }
        do throws(CommandLineError) {
            trust = try ServerTrust(file: arguments.value("ca"), isInsecure: arguments.has("insecure"))
        } catch {
            throw .usage("\(error)")
        }
        if case .only = trust, url.isSecure {
            // Before anybody is asked: the same words and the same code for each command.
            do throws(NetError) { _ = try trust.makeContext() } catch { throw .refused(error.description) }
        }
        if trust == .anyone, url.isSecure { StandardError.write("hubctl: \(ServerTrust.warning)\n") }
        do throws(SecretSource.Unreadable) {
            let path = arguments.value("api-key-file")
            key = if let path { try SecretSource.file(path) } else { SecretSource.environment("HUB_API_KEY") }
        } catch {
            throw .refused("--api-key-file: \(error)")
        }
        if let key, !key.bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) {
            throw .refused("the API key holds a space, a line break or something that isn't ASCII")
        }
    }

    /// "Bearer …", or nil for a hub in development mode.
    var authorization: String? { key.map { "Bearer " + String(decoding: $0.bytes, as: UTF8.self) } }

    /// The body of a good answer.
    func get(_ path: String) throws(Failure) -> [UInt8] { try exchange(path, nil) }
    func post(_ path: String, _ body: [UInt8]) throws(Failure) -> [UInt8] { try exchange(path, body) }

    private func exchange(_ path: String, _ body: [UInt8]?) throws(Failure) -> [UInt8] {
        var headers = ["Accept: application/json"]
        if let authorization { headers.append("Authorization: " + authorization) }
        if body != nil { headers.append("Content-Type: application/json") }
        let answer: HTTPClient.Answer
        do throws(HTTPClient.Failure) {
            answer = try HTTPClient(agent: "hubctl/" + HubVersion.text, trust: trust)
                .send(url: url.http(path), headers: headers, body: body, isLoopback: url.isLoopback)
        } catch {
            switch error {
            case .unreachable(let why): throw .unreachable(Self.unreachable(url, why))
            case .tooLarge(let limit): throw .refused("\(url) answered with more than \(limit) bytes; is it a hub?")
            case .unusable(let why): throw .refused("no request to \(url) can be made: \(why)")
            }
        }
        guard (200..<300).contains(answer.status) else { throw .refused(RefusalText.http(status: answer.status, answer.body)) }
        return answer.body
    }

    static func unreachable(_ url: HubURL, _ why: String) -> String {
        // Over TLS somebody did answer, and the reason says what to do.
        if why.hasPrefix("TLS: ") || why.hasPrefix("--ca: ") { return "can't reach the hub at \(url): \(why)" }
        return "can't reach the hub at \(url): \(why)\nIs hubd running there? Another address: --url or HUB_URL."
    }
}

extension HubURL {
    /// Written as such; a name that only resolves to loopback doesn't count.
    var isLoopback: Bool { host == "localhost" || host == "::1" || host.hasPrefix("127.") }
}
