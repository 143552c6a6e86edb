# Two guests under QEMU, for scripts/test-guests: booting them, running commands in them. Sourced.

declare -A guest_pid guest_in guest_out
# How long a guest may take to boot, in seconds: five to ten on an idle machine.
BOOT_LIMIT=${BOOT_LIMIT:-240}

# guest_up N IMAGE: boots guest N on the tap hN, under plain emulation; guest_ready waits for it.
guest_up() {
  local n=$1 image=$2 off=csum=off,guest_csum=off,gso=off
  off+=,host_tso4=off,host_tso6=off,host_ufo=off,host_ecn=off
  off+=,guest_tso4=off,guest_tso6=off,guest_ufo=off,guest_ecn=off
  rm -f "$work/$n.in" "$work/$n.out" "$work/guest$n.log"
  mkfifo "$work/$n.in" "$work/$n.out"
  # Offloads are off on both sides: with AF_PACKET nobody would complete a partial checksum.
  ip netns exec "$namespace" nice -n 5 qemu-system-x86_64 -accel tcg,thread=multi -cpu max \
    -m 384 -smp 1 -nodefaults -no-reboot -display none \
    -kernel "$image/vmlinuz" -initrd "$image/initrd" \
    -append "console=ttyS0 quiet panic=-1 tsc=reliable mitigations=off audit=0 random.trust_cpu=on host=$n mtu=4200" \
    -chardev "file,id=log,path=$work/guest$n.log" -serial chardev:log \
    -chardev "pipe,id=control,path=$work/$n" -serial chardev:control \
    -netdev "tap,id=net,ifname=h$n,script=no,downscript=no,vnet_hdr=off" \
    -device "virtio-net-pci,netdev=net,mac=52:54:00:77:00:0$n,romfile=,host_mtu=4200,$off" \
    </dev/null >"$work/qemu$n.log" 2>&1 &
  guest_pid[$n]=$!
  exec {fd}<>"$work/$n.in"
  guest_in[$n]=$fd
  exec {fd}<>"$work/$n.out"
  guest_out[$n]=$fd
}

# Waits until guest N is up; 1 when it is not in time, with the reason in $why.
guest_ready() {
  local n=$1 limit=$((SECONDS + BOOT_LIMIT))
  until grep -q '^GUEST READY' "$work/guest$n.log" 2>/dev/null; do
    kill -0 "${guest_pid[$n]}" 2>/dev/null || fail "guest $n ended: $(tail -5 "$work/qemu$n.log" "$work/guest$n.log")"
    if [ $SECONDS -ge $limit ]; then
      why="guest $n is not up after $BOOT_LIMIT s, in which it had $(ps -o cputimes= -p "${guest_pid[$n]}" 2>/dev/null || echo '?') s of CPU (it needs about 10)"
      return 1
    fi
    sleep 0.2
  done
}

# boot IMAGE: both guests. A kernel whose timers were starved by a busy machine may never come up, so they
# are tried three times.
boot() {
  local image=$1 attempt n why=
  for attempt in 1 2 3; do
    for n in 0 1; do guest_up "$n" "$image"; done
    if guest_ready 0 && guest_ready 1; then return 0; fi
    echo "$why; the machine is busy" >&2
    [ "$attempt" = 3 ] || guests_down
  done
  fail "$why"
}

# in_guest N SECONDS COMMAND: runs it there, puts its output into $output, returns its exit status.
in_guest() {
  local n=$1 limit=$((SECONDS + $2 + 10)) line
  output=
  # The guest's own limit ends a command that hangs, and its channel stays usable.
  printf 'timeout %s sh -c %q\n' "$2" "$3" >&"${guest_in[$n]}"
  while IFS= read -r -t $((limit - SECONDS + 1)) line <&"${guest_out[$n]}"; do
    line=${line%$'\r'}
    case $line in
      '##RC '*) return "${line#'##RC '}" ;;
    esac
    output+=$line$'\n'
    [ $SECONDS -lt $limit ] || break
  done
  fail "guest $n does not answer any more; it was asked: $3"
}

# rxe N COUNTER..: counters of a guest's Soft-RoCE device, in one line.
rxe() {
  local n=$1
  shift
  in_guest "$n" 10 "cd /sys/class/infiniband/rxe0/ports/1/hw_counters; cat $*" || fail "no counters $* in guest $n: $output"
  echo "${output//$'\n'/ }"
}

guests_down() {
  local n
  for n in "${!guest_pid[@]}"; do
    end "${guest_pid[$n]}" || true
    exec {guest_in[$n]}>&- {guest_out[$n]}>&-
    unset "guest_pid[$n]"
  done
}
