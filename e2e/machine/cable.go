package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// link returns the lab's name of the interface of the machine with that
// address.
func link(address netip.Addr) string {
	octets := address.As4()
	return fmt.Sprintf("m%d-%d", octets[2], octets[3])
}

// plugScript adds the machine's interface to the namespace that runs the
// script. It first deletes the interface of the machine's previous boot,
// because the kernel removes the network of an ended machine with a delay.
const plugScript = `
nsenter --net="$LAB" ip link delete "$LINK" 2>/dev/null || :
ip link set lo up
ip link add eth0 address "$MAC" type veth peer name "$LINK" netns "$LAB"
nsenter --net="$LAB" ip link set "$LINK" master "$BRIDGE" up
`

// Cut makes the network lose all packets from and to the machine with that
// address. The machine's own interface stays up, as with a missing route or a
// security group. The next boot connects the machine again.
func (l *Lab) Cut(ctx context.Context, address netip.Addr) error {
	return l.plug(ctx, address, "nomaster")
}

// Mend connects the machine again after Cut.
func (l *Lab) Mend(ctx context.Context, address netip.Addr) error {
	return l.plug(ctx, address, "master", bridge)
}

func (l *Lab) plug(ctx context.Context, address netip.Addr, how ...string) error {
	args := append([]string{"link", "set", "dev", link(address)}, how...)
	if out, err := l.Command(ctx, "ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("running ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Sent returns the number of packets from the machine with that address since
// its boot, including lost ones.
func (l *Lab) Sent(ctx context.Context, address netip.Addr) (int, error) {
	out, err := l.Command(ctx, "ip", "-json", "-statistics", "link", "show", "dev", link(address)).Output()
	if err != nil {
		return 0, fmt.Errorf("counting the packets of %s: %w", address, err)
	}
	var interfaces []struct {
		Stats struct{ RX struct{ Packets int } } `json:"stats64"`
	}
	if err := json.Unmarshal(out, &interfaces); err != nil || len(interfaces) != 1 {
		return 0, fmt.Errorf("counting the packets of %s: ip prints %q: %w", address, out, err)
	}
	return interfaces[0].Stats.RX.Packets, nil
}

// Enter runs a shell script in the machine of kind [Node] with that address. It
// enters the machine's namespaces, so that it also works when the network is
// cut and before the machine accepts logins. The script must succeed.
func (l *Lab) Enter(ctx context.Context, address netip.Addr, script string) (string, error) {
	l.mutex.Lock()
	n := slices.IndexFunc(l.machines, func(m *Machine) bool { return m.address == address && m.config.Kind == Node })
	var first *Process
	if n >= 0 {
		first = l.machines[n].current()
	}
	l.mutex.Unlock()
	if first == nil || !first.Running() {
		return "", fmt.Errorf("entering the machine at %s: no node runs there", address)
	}
	cmd := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(first.PID()), "--mount", "--pid", "--net", "--uts", "--ipc", "--root", "--wd", "--", "sh", "-c", script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("running %q at %s: %w: %s", script, address, err, strings.TrimSpace(string(out)))
	}
	return strings.TrimSpace(string(out)), nil
}
