//go:build linux

package scrub

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// hardened is a node without a setting that breaks it, and for each rule of testdata/breakers.yaml
// a change that does.
var hardened = sync.OnceValue(func() (h struct {
	Node   map[string]string
	Breaks map[string]struct {
		File, Text, Finding string
		With                map[string]string
	}
}) {
	decode("testdata/breakers.yaml", &h)
	return h
})

// node is a tree whose programs may be executed. A file's name may end with a
// mode.
func node(t *testing.T, files map[string]string) *host.Host {
	t.Helper()
	plain, modes := map[string]string{}, map[string]string{}
	for name, text := range files {
		name, mode, _ := strings.Cut(name, " ")
		plain[name], modes[name] = text, mode
		if mode == "" && text == "x" {
			modes[name] = "0755"
		}
	}
	h, root := tree(t, plain)
	for name, mode := range modes {
		if mode != "" {
			bits, err := strconv.ParseUint(mode, 8, 32)
			require.NoError(t, err)
			require.NoError(t, os.Chmod(filepath.Join(root, name), os.FileMode(bits)))
		}
	}
	return h
}

func breakersOf(h *host.Host, t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, i := range selected(t, Spec{Only: []string{rule.BreakersGroup}}, ToAudit) {
		answer, err := i.Plan(t.Context(), h)
		require.NoError(t, err, i.ID())
		require.Empty(t, answer.Actions)
		for _, f := range append(answer.Findings, answer.Notes...) {
			found[i.ID()] = append(found[i.ID()], f.Target+": "+f.Reason)
		}
	}
	return found
}

func TestAHardenedNodeThatWorksHasNoBreaker(t *testing.T) {
	h := node(t, hardened().Node)
	found := breakersOf(h, t)
	delete(found, "noexec-volumes") // a note: /var has nosuid
	assert.Empty(t, found)
}

func TestEveryBreakerIsFound(t *testing.T) {
	var rows []string
	for _, r := range Table() {
		if r.Breaks == nil {
			continue
		}
		rows = append(rows, r.ID)
		t.Run(r.ID, func(t *testing.T) {
			sample, there := hardened().Breaks[r.ID]
			require.True(t, there, "the row has no sample")
			files := maps.Clone(hardened().Node)
			name, _, _ := strings.Cut(sample.File, " ")
			_, known := files[name]
			delete(files, name)
			if !known || sample.Text != "" {
				files[sample.File] = sample.Text
			}
			maps.Copy(files, sample.With)
			h := node(t, files)
			if r.ID == "selinux-labels" {
				require.NoError(t, unix.Setxattr(h.Root()+"/usr/local/bin/kubelet", "security.selinux",
					[]byte("system_u:object_r:user_tmp_t:s0\x00"), 0))
			}
			got := breakersOf(h, t)[r.ID]
			require.NotEmpty(t, got)
			all := strings.Join(append(got, r.Source), "\n")
			assert.Contains(t, all, sample.Finding)
			for _, part := range []string{r.Breaks.Shows, r.Breaks.Fix, r.Breaks.Benchmarks} {
				assert.Contains(t, all, part)
			}
			for field, value := range map[string]string{"cause": r.Breaks.Cause, "program": r.Breaks.Program,
				"since": r.Breaks.Since} {
				assert.NotEmpty(t, value, field)
			}
		})
	}
	assert.ElementsMatch(t, rows, slices.Collect(maps.Keys(hardened().Breaks)), "each row has one sample")
}

// A policy that drops outgoing packets breaks no node whose rules accept new connections,
// as roles of Ansible and CIS's own scripts leave them.
func TestOutgoingConnectionsThatAreAcceptedBreakNothing(t *testing.T) {
	for unit, text := range map[string][2]string{
		"ufw": {"etc/ufw/user.rules", "ENABLED=yes\nDEFAULT_OUTPUT_POLICY=DROP\n-A ufw-user-output -j ACCEPT # new\n"},
		"nftables": {"etc/nftables.conf", "chain output { type filter hook output priority 0; policy drop;\n" +
			"ip protocol tcp ct state established,related,new accept\n}\n"},
		"netfilter-persistent": {"etc/iptables/rules.v4", ":OUTPUT DROP [0:0]\n" +
			"-A OUTPUT -p tcp -m state --state NEW,ESTABLISHED -j ACCEPT\n"},
	} {
		starts := "etc/systemd/system/x.wants/" + unit + ".service"
		files := map[string]string{"etc/passwd": passwd, text[0]: text[1], starts: "-> /x"}
		assert.Empty(t, breakersOf(node(t, files), t)["firewall-output"], unit)
		other := strings.NewReplacer("new", "invalid", "NEW", "INVALID", "-j ACCEPT # new", "-o all -j ACCEPT")
		files[text[0]] = other.Replace(text[1])
		assert.Len(t, breakersOf(node(t, files), t)["firewall-output"], 1, unit)
	}
}

// The group is for machines that are not yet nodes too, if it is named.
func TestBreakersOfABaseImage(t *testing.T) {
	image := map[string]string{"etc/passwd": passwd, "etc/fstab": "/dev/z /opt ext4 noexec 0 0\n"}
	h, _ := tree(t, image)
	assert.Contains(t, strings.Join(audit(t, h, rule.BreakersGroup), "\n"), "/etc/fstab: line 1 mounts \"/opt\" with noexec")
	for _, p := range planned(t, h, Spec{Node: NodeAuto}, ToAudit) {
		assert.False(t, p.Item == "noexec-cni" && len(p.Findings) > 0, "not a node")
	}
}
