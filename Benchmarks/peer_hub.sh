# The hub as a peer of the fan-out benchmark: sourced by peers.sh (EXTRA). One loop, so that one core is compared with one core.
#   HUBD: the program; HUB_SETTINGS: further --set arguments.
peer_hub() {
  CAN="fan rooms idle deflate cross"
  CMD=("$HUBD" --dev --listen "127.0.0.1:$PORT" --set loops=1 --set log.level=warning --set limits.acceptsPerSecond=1000000 ${HUB_SETTINGS:-})
  [ -z "$REDIS" ] || CMD+=(--redis "redis://127.0.0.1:$REDIS")
  FL=(--path '/v1/ws?user=u%i' --sub-msg '{"type":"subscribe","id":1,"channel":"c%d"}' --ack '"type":"ack"'
      --pub-path '/v1/ws?user=p%i' --pub-msg '{"type":"chat","channel":"c%d","payload":%b}')
}
