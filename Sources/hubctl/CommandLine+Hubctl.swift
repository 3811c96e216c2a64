import HubBase

/// hubctl's command line, as a value; `--help` is made from it.
enum HubctlCommandLine {
    private static let connection = [
        CommandLineParser.Flag("url", value: "URL", help: "Any node, or the load balancer (default: HUB_URL, else http://127.0.0.1:8080)."),
        CommandLineParser.Flag("api-key-file", value: "FILE", help: "File with the API key (default: the key in HUB_API_KEY)."),
        CommandLineParser.Flag(
            "ca", value: "FILE",
            help: "Over TLS, believe whom these certificates (PEM) vouch for (default: SSL_CERT_FILE, else the system's)."),
        CommandLineParser.Flag("insecure", help: "Over TLS, believe anybody: for tests only."),
    ]
    private static let json = CommandLineParser.Flag("json", help: "Print the hub's own JSON, one answer or message a line.")

    static let parser = CommandLineParser(
        program: "hubctl",
        summary: "Asks a hub who is online, publishes, follows channels, reads what was said, lists who is there.",
        flags: connection + [CommandLineParser.Flag("version", help: "Print the version.")],
        commands: [presence, publish, subscribe, history, members, nodes, token, disconnect, revoke],
        notes: [
            "Environment: HUB_URL, HUB_API_KEY. A key is never an argument, because everybody can read those with ps.", exitCodes,
        ])
    private static let exitCodes = "Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 the hub can't be reached."

    private static let presence = CommandLineParser.Command(
        "presence", summary: "Says who is online, on which devices and nodes.",
        flags: [
            json, CommandLineParser.Flag("watch", help: "Go on and print every change, until Ctrl-C."),
            CommandLineParser.Flag(
                "explain", help: "Say why: each connection with its address, the last transitions with their causes (scope admin)."),
        ],
        operands: [CommandLineParser.Operand("USER", .oneOrMore, help: "The user's id.")],
        examples: [
            CommandLineParser.Example("hubctl presence alice", "alice's status and connections"),
            CommandLineParser.Example("hubctl presence alice bob --watch", "both, and what changes"),
            CommandLineParser.Example("hubctl presence alice --explain", "why her status is what it is"),
        ])

    private static let publish = CommandLineParser.Command(
        "publish", summary: "Publishes one message into a channel.",
        flags: [
            CommandLineParser.Flag("json", value: "PAYLOAD", help: "The payload as JSON, instead of TEXT."),
            CommandLineParser.Flag("class", value: "CLASS", help: "chat (default) or event."),
            CommandLineParser.Flag("user", value: "USER", help: "In whose name (default: the backend's own)."),
            CommandLineParser.Flag(
                "id", value: "MESSAGEID", help: "The message's id: with the same id it's stored once (default: a random one)."),
        ],
        operands: [
            CommandLineParser.Operand("CHANNEL", help: "Where to."),
            CommandLineParser.Operand("TEXT", .optional, help: "Published as {\"text\": TEXT}."),
        ],
        examples: [
            CommandLineParser.Example("hubctl publish room:42 'Lunch is ready'", "a text"),
            CommandLineParser.Example(
                "hubctl publish room:42 --class event --json '{\"lamp\":\"on\"}'", "an event with a payload of its own"),
        ])

    private static let subscribe = CommandLineParser.Command(
        "subscribe", summary: "Follows channels and prints each message, until Ctrl-C.",
        flags: [
            json,
            CommandLineParser.Flag(
                "from", value: "POSITION",
                help: "Begin behind this position of one channel (hubctl history CHANNEL --json shows them): what was missed comes first."),
        ], operands: [CommandLineParser.Operand("CHANNEL", .oneOrMore, help: "What to follow.")],
        examples: [
            CommandLineParser.Example("hubctl subscribe room:42 room:43", "two rooms"),
            CommandLineParser.Example("hubctl subscribe --json room:42 | head -1", "the next message as JSON"),
        ])

    private static let history = CommandLineParser.Command(
        "history", summary: "Prints what was said in a channel, oldest first.",
        flags: [
            json,
            CommandLineParser.Flag("since", value: "PLACE", help: "Only what came after this position or offset."),
            CommandLineParser.Flag("before", value: "PLACE", help: "Only what came before this position or offset."),
            CommandLineParser.Flag("limit", value: "N", help: "At most so many (default: all that is kept)."),
            CommandLineParser.Flag("reverse", help: "The newest first."),
        ],
        operands: [CommandLineParser.Operand("CHANNEL", help: "Whose history.")],
        examples: [
            CommandLineParser.Example("hubctl history room:42 --limit 20 --reverse", "the latest twenty"),
            CommandLineParser.Example("hubctl history room:42 --since x7c2mq4a.17.q3hd5k2b --json", "everything since then, as JSON"),
        ])

    private static let members = CommandLineParser.Command(
        "members", summary: "Lists who is in a channel.", flags: [json],
        operands: [CommandLineParser.Operand("CHANNEL", help: "Whose members.")],
        examples: [CommandLineParser.Example("hubctl members room:42", "how many there are, and everybody by name")])

    private static let nodes = CommandLineParser.Command(
        "nodes", summary: "Lists the nodes that share this hub.", flags: [json],
        examples: [CommandLineParser.Example("hubctl nodes", "names, connections, time left on each node's lease")])

    private static let token = CommandLineParser.Command(
        "token", summary: "Mints a token, or shows what one says, without asking a hub.",
        flags: [
            CommandLineParser.Flag("user", value: "USER", help: "Whose token (sub)."),
            CommandLineParser.Flag("ttl", value: "SPAN", help: "How long it holds: 30s, 5m, 1h, 7d (default 1h)."),
            CommandLineParser.Flag(
                "allow", value: "PATTERN=RIGHTS", isRepeatable: true,
                help: "What it grants (caps): rights are subscribe, publish, presence, history, watch or *, with commas between."),
            CommandLineParser.Flag("allow-all", help: "It grants everything (default: what the hub's namespaces grant)."),
            CommandLineParser.Flag("channel", value: "CHANNEL", isRepeatable: true, help: "Subscribed for it from the start (channels)."),
            CommandLineParser.Flag("issuer", value: "TEXT", help: "Who issued it (iss)."),
            CommandLineParser.Flag("audience", value: "TEXT", help: "Which hub it's for (aud)."),
            CommandLineParser.Flag("id", value: "TEXT", help: "Its own id, by which it can be revoked (jti)."),
            CommandLineParser.Flag(
                "alg", value: "ALGORITHM", help: "HS256 (default), HS384, HS512, RS256, PS256, ES256, ES384 or EdDSA."),
            CommandLineParser.Flag(
                "key-env", value: "VARIABLE", help: "Environment variable with the secret or key (default HUB_AUTH_SECRET)."),
            CommandLineParser.Flag("key-file", value: "FILE", help: "File with the secret, or with the key as PEM."),
            CommandLineParser.Flag("kid", value: "KID", help: "Which of the hub's keys it is."),
        ],
        operands: [
            CommandLineParser.Operand("ACTION", .optional, help: "mint (the default), or inspect: shows a token from standard input.")
        ],
        examples: [
            CommandLineParser.Example("hubctl token --user alice", "for an hour, signed with the secret in HUB_AUTH_SECRET"),
            CommandLineParser.Example(
                "hubctl token --user alice --allow 'room:*=subscribe,publish' --allow 'user:*=watch'", "for rooms, and everybody's presence"
            ),
            CommandLineParser.Example(
                "hubctl token --user alice --ttl 7d --alg ES256 --key-file private.pem", "for a week, by a private key"),
            CommandLineParser.Example("hubctl token inspect --key-file secret.key < token.txt", "what it says, and whether it holds"),
        ],
        unused: ["url", "api-key-file", "ca", "insecure", "version"],
        notes: [
            """
            Environment: HUB_AUTH_SECRET, the secret that the hub checks tokens with. Neither secrets nor tokens are ever arguments, because
            everybody can read those with ps.
            """, exitCodes,
        ])

    private static let disconnect = CommandLineParser.Command(
        "disconnect", summary: "Closes all connections of a user, on every node. Needs a key with the scope admin.",
        flags: [
            CommandLineParser.Flag(
                "may-return", help: "Clients are told that they may come back (4004); otherwise that they may not (4003).")
        ],
        operands: [CommandLineParser.Operand("USER", help: "The user's id.")],
        examples: [CommandLineParser.Example("hubctl disconnect alice --may-return", "alice's clients connect anew")])

    private static let revoke = CommandLineParser.Command(
        "revoke", summary: "Revokes tokens, on every node, for as long as they would hold. Needs a key with the scope admin.",
        flags: [
            CommandLineParser.Flag("user", value: "USER", help: "All that were issued to this user until now."),
            CommandLineParser.Flag("token", value: "JTI", help: "The one with this id."),
            CommandLineParser.Flag("all", help: "All that were issued to anybody until now."),
            CommandLineParser.Flag(
                "before", value: "TIME", help: "With --user or --all: issued in this second since 1970 or before it, instead of now."),
        ],
        examples: [
            CommandLineParser.Example("hubctl revoke --user alice", "alice needs a new token, on all her devices"),
            CommandLineParser.Example("hubctl revoke --token 5f1c9b", "the token with this jti, and the connections that it opened"),
        ])
}
