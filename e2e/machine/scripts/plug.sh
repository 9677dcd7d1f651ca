# shellcheck shell=sh
# Adds the machine's interface to the namespace that runs the script. It first deletes the interface
# of the machine's previous boot, because the kernel removes the network of an ended machine with a
# delay.
nsenter --net="$LAB" ip link delete "$LINK" 2>/dev/null || :
ip link set lo up
ip link add eth0 address "$MAC" type veth peer name "$LINK" netns "$LAB"
nsenter --net="$LAB" ip link set "$LINK" master "$BRIDGE" up
