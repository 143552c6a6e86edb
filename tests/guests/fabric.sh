# A fabric of two leaves and four spines in one process, for scripts/test-guests: its files, its cables,
# starting and stopping it. Sourced; works in $work and the network namespace $namespace.
#
# Hosts are on the taps h0 and h1; all cables between leaves and spines are VLANs of one veth pair. The
# loop sleeps when idle, for it shares its CPU with the guests.

SPINES=4
# An AF_PACKET frame and a buffer that hold path MTU 4096 with all headers; smaller ones would cut frames
# without a counter. Rings of 2,048 frames last a tenth of a second at what two emulated guests send.
AF_PACKET='framesz=8192,blocksz=32768,framecnt=2048'
BUFFER=8448

cables() {
  ip netns add "$namespace"
  ip -n "$namespace" link set lo up
  ip -n "$namespace" link add t0 type veth peer name t1
  local host
  for host in 0 1; do ip -n "$namespace" tuntap add dev "h$host" mode tap; done
  local interface
  for interface in t0 t1 h0 h1; do
    # No address here: this side adds nothing to the wire.
    ip -n "$namespace" link set "$interface" addrgenmode none mtu 4300 up
  done
}

# port NAME KIND INTERFACE MAC LINES..
port() {
  printf '[[port]]\nname = "%s"\nkind = "%s"\ndevice = "net_af_packet_%s,iface=%s,%s"\nmac = "%s"\nmtu = 4200\nrate = "10Gbps"\n' \
    "$1" "$2" "$3" "$3" "$AF_PACKET" "$4"
  printf '%s\n' "${@:5}"
}

# The port of a cable: cable NAME KIND INTERFACE MAC PEER PEER_MAC VLAN
cable() {
  port "$1" "$2" "$3" "$4" "peer = \"$5\"" "peer_mac = \"$6\"" "vlan = $7"
  [ "${faulty_port:-}" != "$role.$1" ] || printf 'faults = ["%s"]\n' "$fault"
}

# What is said of every switch, ports aside.
common() {
  cat <<TOML
name = "$namespace-$role"
role = "$role"
[fabric]
leaves = 2
spines = $SPINES
link_state = "100ms"
[spray]
policy = "$spray"
[queue]
packets = 2048
limit = "1MiB"
slack = "1ms"
[measurement]
announce = "window"
test = "sequential"
evidence = "hop-counts"
spine_packets = 256
path_delay = "20ms"
silence = "500ms"
[eal]
memory = "no-huge"
size = "96MiB"
buffer = $BUFFER
idle = "sleep"
TOML
}

leaf_mac() { printf '02:00:00:00:%02x:%02x' "$1" "$2"; }
spine_mac() { printf '02:00:00:01:%02x:%02x' "$1" "$2"; }
vlan_of() { echo $((100 + $1 * SPINES + $2)); }

# Addresses of the host behind a leaf: nothing says its MAC address.
networks() { echo "10.77.$1.0/24" "10.78.$1.0/24" "fd77:0:0:$1::/64"; }
routes() {
  local prefix
  for prefix in $(networks "$1"); do
    printf '[[route]]\nprefix = "%s"\nleaf = "leaf%s"\n' "$prefix" "$1"
  done
}

leaf_file() {
  local leaf=$1 spine prefixes
  role=leaf$leaf
  common
  prefixes=$(networks "$leaf" | sed 's/ /", "/g')
  port h host "h$leaf" "$(leaf_mac "$leaf" 255)" "prefixes = [\"$prefixes\"]"
  for ((spine = 0; spine < SPINES; spine++)); do
    cable "up$spine" uplink t0 "$(leaf_mac "$leaf" "$spine")" "spine$spine" \
      "$(spine_mac "$spine" "$leaf")" "$(vlan_of "$leaf" "$spine")"
  done
  routes $((1 - leaf))
  printf '[gateway]\naddresses = ["10.77.%s.254", "10.78.%s.254", "fd77:0:0:%s::fe"]\n' "$leaf" "$leaf" "$leaf"
}

spine_file() {
  local spine=$1 leaf
  role=spine$spine
  common
  for leaf in 0 1; do
    cable "down$leaf" downlink t1 "$(spine_mac "$spine" "$leaf")" "leaf$leaf" \
      "$(leaf_mac "$leaf" "$spine")" "$(vlan_of "$leaf" "$spine")"
  done
  routes 0
  routes 1
}

# fabric_up SPRAY [PORT FAULT]: writes the files and starts the switches.
fabric_up() {
  spray=$1 faulty_port=${2:-} fault=${3:-}
  local files=() index
  for index in 0 1; do
    leaf_file $index >"$work/leaf$index.toml"
    files+=(--config "$work/leaf$index.toml")
  done
  for ((index = 0; index < SPINES; index++)); do
    spine_file $index >"$work/spine$index.toml"
    files+=(--config "$work/spine$index.toml")
  done
  ip netns exec "$namespace" "$spraycheck" switch "${files[@]}" --socket "$work/socket" \
    --json "$work/result.json" >"$work/switch.log" 2>&1 &
  switch_pid=$!
  local tries
  for ((tries = 0; tries < 150; tries++)); do
    if "$spraycheck" show version --socket "$work/socket" >/dev/null 2>&1; then return 0; fi
    kill -0 $switch_pid 2>/dev/null || break
    sleep 0.2
  done
  cat "$work/switch.log" >&2
  fail "the switches did not start"
}

# Ends the switches and holds them to their conservation law.
fabric_down() {
  [ -n "${switch_pid:-}" ] || return 0
  local pid=$switch_pid
  switch_pid=
  end "$pid" || fail "the switches ended with status $?: $(cat "$work/switch.log")"
  [ "$(jq .conservation_ok "$work/result.json")" = true ] || fail "packets are unaccounted for: $(cat "$work/result.json")"
}

# shown WHAT: the rows of `spraycheck show WHAT`, as JSON.
shown() { "$spraycheck" show "$1" --socket "$work/socket" --json - | jq -c .rows; }
