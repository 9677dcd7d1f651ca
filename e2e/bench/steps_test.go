//go:build e2e

package bench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/plugin/scrub"
)

// leftovers returns 100 files and folders of an old node, which rules remove
// one by one.
func leftovers() (rules []any, paths []string) {
	for _, l := range []struct {
		rule, folder string
		count        int
	}{
		{"kubelet-pki", "/var/lib/kubelet/pki", 20},
		{"kubelet-checkpoints", "/var/lib/kubelet/checkpoints", 20},
		{"kubelet-pods", "/var/lib/kubelet/pods", 20},
		{"cni-config", "/etc/cni/net.d", 20},
		{"cluster-ca", "/etc/kubernetes/pki", 15},
		{"static-pods", "/etc/kubernetes/manifests", 5},
	} {
		rules = append(rules, l.rule)
		for i := range l.count {
			paths = append(paths, fmt.Sprintf("%s/old-%02d", l.folder, i))
		}
	}
	return rules, paths
}

// BenchmarkSteps removes 100 leftovers: with one eksnode-scrub block, and with
// one remote command for each. The block's time includes the probe, the agent's
// upload and start, planning, removal, verification and the report.
func BenchmarkSteps(b *testing.B) {
	n := openLab(b).boot()
	rules, paths := leftovers()
	all := strings.Join(paths, " ")
	ready := func() {
		n.ready("for p in " + all + `; do
	mkdir -p "${p%/*}"
	case $p in
	*/pods/*) mkdir -p "$p/volumes"; echo secret >"$p/volumes/token" ;;
	*) echo old >"$p" ;;
	esac
done`)
	}
	check := func() figures {
		return n.check("for p in " + all + "; do if [ -e $p ]; then echo $p is still there; exit 1; fi; done")
	}
	ours, _ := race(b, 1, "100-commands", 0.08,
		way{ready, func() figures {
			n.block(new(scrub.Provisioner), map[string]any{"rules": rules})
			return nil
		}, func() figures {
			require.Equal(b, len(paths), n.did().Totals.Actions)
			return check()
		}},
		way{ready, func() figures {
			for _, p := range paths {
				n.command("sudo -n -- rm -rf " + p)
			}
			return nil
		}, check})
	goal(b, "sessions", ours["sessions"], 3)
}
