# What is checked between the guests, for scripts/test-guests. Sourced.
#
# perftest's own figures are often 0 under emulation, for they come from a cycle clock: it is judged by its
# exit status and by the packets that both Soft-RoCE devices counted. rping -V compares every byte.

# How long a server or a client may take, in seconds: what takes two on an idle machine.
LIMIT=120
HOST=(10.77.0.1 10.77.1.1)
HOST6=(fd77:0:0:0::1 fd77:0:0:1::1)
HOSTV=(10.78.0.1 10.78.1.1)
# TCP port 18515 of perftest and ibv_*_pingpong, as /proc/net/tcp writes it; state 0A is LISTEN.
LISTENS='for i in $(seq 300); do grep -q ":4853 [0-9A-F:]* 0A" /proc/net/tcp /proc/net/tcp6 && break; sleep 0.1; done'

# pair NAME PACKETS READY SERVER CLIENT: runs SERVER in guest 1, and CLIENT in guest 0 once READY, a
# command of guest 1, has ended. Demands that both end well and that both devices together received
# PACKETS packets at least.
pair() {
  local name=$1 least=$2 ready=$3 server=$4 client=$5 status=0 before after began=$SECONDS
  before=$(received)
  in_guest 1 60 "rm -f /tmp/server.rc; { timeout $LIMIT $server; echo \$? >/tmp/server.rc; } >/tmp/server.log 2>&1 & $ready" ||
    fail "$name: the server did not start: $output"
  in_guest 0 $LIMIT "$client" || status=$?
  local told=$output
  [ $status = 0 ] || { in_guest 1 10 'cat /tmp/server.log' || true; fail "$name: status $status: $told; server: $output; dropped: $(shown drops)"; }
  in_guest 1 60 'for i in $(seq 500); do [ -e /tmp/server.rc ] && break; sleep 0.1; done; cat /tmp/server.log; exit $(cat /tmp/server.rc)' ||
    fail "$name: the server ended with status $?: $output"
  after=$(received)
  [ $((after - before)) -ge "$least" ] ||
    fail "$name: the devices received $((after - before)) packets, $least and more are in what was asked for"
  printf '%-34s ok  %6d packets  %3d s\n' "$name" $((after - before)) $((SECONDS - began))
}

# Packets that both devices have received.
received() {
  local zero one
  zero=$(rxe 0 rcvd_pkts)
  one=$(rxe 1 rcvd_pkts)
  echo $((zero + one))
}

# perf NAME PACKETS TOOL OPTIONS
perf() { pair "$1" "$2" "$LISTENS" "$3 -d rxe0 -F $4" "$3 -d rxe0 -F $4 ${HOST[1]}"; }

# rping NAME PACKETS ADDRESS OPTIONS
rping() { pair "$1" "$2" 'sleep 1' "rping -s -V -a $3 $4" "rping -c -V -a $3 $4"; }

# Every address answers once: the first packets find nobody who is known.
reach_all() {
  local address
  for address in "${HOST[1]}" "${HOST6[1]}" "${HOSTV[1]}"; do
    in_guest 0 60 "for i in \$(seq 30); do ping -c 1 -W 1 $address && exit 0; done; exit 1" ||
      fail "ping $address: $output; dropped: $(shown drops)"
  done
}

# And nothing is lost, where nothing is injected.
ping_all() {
  local address
  reach_all
  for address in "${HOST[1]}" "${HOST6[1]}" "${HOSTV[1]}"; do
    in_guest 0 60 "ping -c 5 -W 5 $address" || fail "ping $address: $output; dropped: $(shown drops)"
    grep -q ' 0% packet loss' <<<"$output" || fail "ping $address: $output; dropped: $(shown drops)"
    printf '%-34s ok\n' "ping $address"
  done
}

verbs() {
  rping 'rping -V' 100 "${HOST[1]}" '-C 20 -S 3000'
  rping 'rping -V, IPv6' 100 "${HOST6[1]}" '-C 20 -S 3000'
  rping 'rping -V, VLAN' 100 "${HOSTV[1]}" '-C 20 -S 3000'
  pair ibv_rc_pingpong 800 "$LISTENS" 'ibv_rc_pingpong -d rxe0 -g $G4 -m 1024 -s 4096 -n 100' \
    "ibv_rc_pingpong -d rxe0 -g \$G4 -m 1024 -s 4096 -n 100 ${HOST[1]}"
  pair ibv_ud_pingpong 200 "$LISTENS" 'ibv_ud_pingpong -d rxe0 -g $G4 -s 1024 -n 100' \
    "ibv_ud_pingpong -d rxe0 -g \$G4 -s 1024 -n 100 ${HOST[1]}"
  perf ib_send_bw 1600 ib_send_bw '-x $G4 -m 1024 -s 16384 -n 100 -t 1 -r 16'
  perf ib_read_bw 1600 ib_read_bw '-x $G4 -m 1024 -s 16384 -n 100 -o 4'
  perf ib_write_bw 1600 ib_write_bw '-x $G4 -m 1024 -s 16384 -n 100 -t 1'
  perf ib_atomic_bw 200 ib_atomic_bw '-x $G4 -n 100'
  perf 'ib_send_bw, UD' 200 ib_send_bw '-c UD -x $G4 -m 1024 -s 1024 -n 200'
  perf 'ib_write_bw, path MTU 4096' 400 ib_write_bw '-x $G4 -m 4096 -s 16384 -n 100 -t 1'
  perf 'ib_read_bw, path MTU 4096, IPv6' 400 ib_read_bw '-x $G6 -m 4096 -s 16384 -n 100 -o 4'
  perf 'ib_write_bw, path MTU 4096, VLAN' 400 ib_write_bw '-x $GV -m 4096 -s 16384 -n 100 -t 1'
}

# Opcodes that the verbs above are made of (IBTA 9.2): RC SEND 0, 1, 2, WRITE 6, 7, 8, READ request 12 and
# response 13, 14, 15, ACK 17, atomic ACK 18, FetchAdd 20, UD SEND Only 100.
OPCODES='0 1 2 6 7 8 12 13 14 15 17 18 20 100'

capture_up() {
  # All that leaves send to spines, marks included: every packet of both guests.
  "$spraycheck" capture --socket "$work/socket" --port up0,up1,up2,up3 --direction out \
    --out "$work/uplinks.pcapng" 2>"$work/capture.log" &
  capture_pid=$!
  local tries
  for ((tries = 0; tries < 100; tries++)); do
    if grep -q '^capture ' "$work/capture.log"; then return 0; fi
    kill -0 $capture_pid 2>/dev/null || break
    sleep 0.1
  done
  fail "spraycheck capture: $(cat "$work/capture.log")"
}

# What leaves have sprayed opens in tshark, every opcode decoded.
capture_down() {
  local pid=$capture_pid
  capture_pid=
  end "$pid" || fail "spraycheck capture ended with status $?: $(cat "$work/capture.log")"
  grep -q 'capture-missed 0;' "$work/capture.log" || fail "the capture is not whole: $(cat "$work/capture.log")"
  timeout 120 tshark -n -r "$work/uplinks.pcapng" -T fields -e udp.dstport -e infiniband.bth.opcode -e _ws.malformed \
    >"$work/uplinks.fields" 2>"$work/tshark.log" || fail "tshark: $(cat "$work/tshark.log")"
  local malformed undecoded seen opcode
  malformed=$(awk -F '\t' '$3 != ""' "$work/uplinks.fields" | wc -l)
  undecoded=$(awk -F '\t' '$1 == 4791 && $2 == ""' "$work/uplinks.fields" | wc -l)
  seen=" $(awk -F '\t' '$2 != "" { print $2 }' "$work/uplinks.fields" | sort -nu | tr '\n' ' ')"
  [ "$malformed" = 0 ] && [ "$undecoded" = 0 ] || fail "tshark: $malformed malformed, $undecoded RoCE packets not decoded"
  for opcode in $OPCODES; do
    [[ $seen == *" $opcode "* ]] || fail "no packet of opcode $opcode was seen; there were$seen"
  done
  printf '%-34s ok  %6d packets, opcodes%s\n' 'tshark' "$(wc -l <"$work/uplinks.fields")" "$seen"
}

# Traffic that windows are made of, of so many packets: WRITE to leaf1, READ to leaf0. One message of one
# packet is out at a time, so none is overtaken, and Soft-RoCE repeats only what is lost.
writes() { perf 'load: ib_write_bw' "$1" ib_write_bw "-x \$G4 -m 1024 -s 1024 -n $1 -t 1"; }
reads() { perf 'load: ib_read_bw' "$1" ib_read_bw "-x \$G4 -m 1024 -s 1024 -n $1 -o 1 -t 1"; }

# The links that are named, one a line: leaf0>spine1 convicted
named() { shown links | jq -r '.[] | "\(.link) \(.state)"'; }

all_checks() {
  step 'every verb, sprayed'
  fabric_up jsq2
  ping_all
  capture_up
  verbs
  capture_down

  step 'nothing is lost, nothing is named'
  writes 8192
  reads 8192
  measured 1
  measured 0
  [ -z "$(named)" ] || fail "nothing was injected, and this was named: $(shown links); tests: $(shown tests)"
  fabric_down

  step 'spine2>leaf1 loses 2 %'
  fabric_up jsq2 spine2.down1 drop=0.02
  reach_all
  local round
  for round in 1 2 3 4 5 6; do
    writes 6144
    [ -z "$(named)" ] || break
  done
  local lost
  lost=$(shown drops | jq '.[] | select(.reason == "injected-loss") | .packets')
  [ "$(named)" = 'spine2>leaf1 convicted' ] ||
    fail "$lost packets were lost on spine2>leaf1, and named is: $(shown links); paths: $(shown spines)"
  shown links | jq -r '.[] | "named: \(.link) loses \(.drop_rate * 100) %, seen in \(.packets) packets"'
  echo "injected: $lost packets lost"
  fabric_down
}

# measured LEAF: the windows to a leaf have judged every path, and all that was marked has come.
measured() {
  local paths
  paths=$(shown spines | jq -c "[.[] | select(.to == \"leaf$1\")]")
  [ "$(jq "length == $SPINES and all(.marked_sent >= 500 and .marked_received == .marked_sent)" <<<"$paths")" = true ] ||
    fail "marked packets to leaf$1 by spine: $paths; dropped: $(shown drops)"
  jq -r '.[] | "\(.to) over \(.via): \(.marked_sent) marked packets, \(.marked_received) counted"' <<<"$paths"
}

# cost_of_spraying: goodput, repeated and overtaken packets of ib_write_bw, by policy and messages outstanding.
cost_of_spraying() {
  local policy depth
  printf '| policy | messages | outstanding | goodput, MB/s | packets sent | needed | out of order |\n'
  printf '| --- | --- | --- | --- | --- | --- | --- |\n'
  for policy in ecmp jsq2; do
    fabric_up "$policy"
    ping_all >/dev/null
    cost_row "$policy" 1024 1 2000
    cost_row "$policy" 16384 1 400
    cost_row "$policy" 16384 4 400
    fabric_down
  done
}

# cost_row POLICY BYTES OUTSTANDING COUNT. What a run takes beside its messages is taken out by a run of 5.
cost_row() {
  local policy=$1 bytes=$2 depth=$3 count=$4 short long before after
  local options="-x \$G4 -m 1024 -s $bytes -t $depth" needed=$((count * bytes / 1024))
  short=$(client_ms 5 "$options")
  before=($(rxe 0 sent_pkts) $(rxe 1 out_of_seq_request))
  long=$(client_ms "$count" "$options")
  after=($(rxe 0 sent_pkts) $(rxe 1 out_of_seq_request))
  awk -v policy="$policy" -v depth="$depth" -v ms="$((${long:-0} - ${short:-0}))" -v size="$bytes" -v count="$count" \
    -v sent=$((after[0] - before[0])) -v needed="$needed" -v order=$((after[1] - before[1])) 'BEGIN {
      rate = ms > 0 ? sprintf("%.2f", (count - 5) * size / ms / 1000) : "not done in time"
      printf "| %s | %d x %d B | %d | %s | %d | %d | %d |\n", policy, count, size, depth, rate, sent, needed, order }'
}

# Milliseconds of a client's run, in the guest's own time; empty when it does not end in time.
client_ms() {
  in_guest 1 60 "timeout 65 ib_write_bw -d rxe0 -F $2 -n $1 >/tmp/server.log 2>&1 & $LISTENS" || fail "the server did not start: $output"
  in_guest 0 65 "a=\$(cut -d' ' -f1 /proc/uptime); timeout 60 ib_write_bw -d rxe0 -F $2 -n $1 ${HOST[1]} >/tmp/client.log 2>&1 || exit; echo \"\$a \$(cut -d' ' -f1 /proc/uptime)\"" || true
  awk 'NF == 2 { printf "%d\n", ($2 - $1) * 1000 }' <<<"$output"
}
