//go:build linux

package scrub

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// tree builds an image from a map of paths: "-> x" is a link, a name that ends
// in "/" a folder, everything else a file with that content.
func tree(t *testing.T, files map[string]string) (*host.Host, string) {
	t.Helper()
	h := hosttest.Root(t, files)
	return h, h.Root()
}

// snapshot lists a tree as path → content, folders as "/".
func snapshot(t *testing.T, root string) map[string]string {
	t.Helper()
	got := testkit.TreeOf(t, root)
	for name, note := range got {
		parts := strings.SplitN(note, " ", 3) // mode, owner, content
		got[name] = append(parts, "/")[2]
	}
	return got
}

// diff lists what changed: "- path" gone, "~ path" another content, "+ path" new.
func diff(before, after map[string]string) []string { return testkit.Tree(after).Changes(before) }

func look(t *testing.T, rule string, h *host.Host) (plan.Answer, error) {
	all, d := Table(), Draft{Ctx: t.Context(), Host: h}
	all[slices.IndexFunc(all, func(r Rule) bool { return r.ID == rule })].Plan(&d, nil)
	return d.Answer, d.Err
}

func apply(t *testing.T, h *host.Host, spec Spec) []plan.Outcome {
	t.Helper()
	items := selected(t, spec, ToScrub)
	outcomes, err := plan.Apply(t.Context(), h, items, nil)
	require.NoError(t, err)
	for _, l := range plan.Make(t.Context(), h, items) {
		assert.Empty(t, l.Error)
		assert.Empty(t, l.Actions, l.Item)
	}
	return outcomes
}

const passwd = "root:x:0:0:root:/root:/bin/bash\nadmin:x:1000:1000::/home/admin:/bin/bash\nsvc:x:998:998::/opt/svc home:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"

var joinedKubeconfig = strings.NewReplacer(
	"MASTER_ENDPOINT", "https://CE0253A94B6B14215AE3282580CFA5E3.yl4.cn-north-1.eks.amazonaws.com.cn",
	"CLUSTER_NAME", "old-cluster", "AWS_REGION", "cn-north-1",
).Replace(templateText(templates.Kubeconfig))

func templateText(name string) string {
	for _, t := range templates.All() {
		if t.Path == name {
			return string(t.Content)
		}
	}
	panic("no template " + name)
}

// A run that stops after any number of actions is finished by the next, with
// the same result as a run that was never stopped.
func TestTheNextRunCompletesAnInterruptedScrub(t *testing.T) {
	whole, wholeRoot := tree(t, joinedNode())
	total := 0
	for _, o := range apply(t, whole, Spec{}) {
		total += len(o.Actions)
	}
	want := snapshot(t, wholeRoot)
	for stop := range total {
		h, root := tree(t, joinedNode())
		items := selected(t, Spec{}, ToScrub)
		done := 0
		for _, i := range items {
			answer, err := i.Plan(t.Context(), h)
			require.NoError(t, err)
			for _, a := range answer.Actions {
				if done == stop {
					break
				}
				require.NoError(t, a.Perform(t.Context(), nil))
				done++
			}
		}
		apply(t, h, Spec{})
		require.Empty(t, diff(want, snapshot(t, root)), "stopped after %d actions", stop)
	}
}

func TestHostKeysStayIfNoUnitCreatesThem(t *testing.T) {
	h, root := tree(t, map[string]string{"etc/passwd": passwd, "etc/ssh/ssh_host_rsa_key": "KEY"})
	outcomes := apply(t, h, Spec{Only: []string{"ssh-host-keys"}})
	assert.FileExists(t, filepath.Join(root, "etc/ssh/ssh_host_rsa_key"))
	require.Len(t, outcomes[0].Findings, 1)
	assert.Contains(t, outcomes[0].Findings[0].Reason, "no unit on this machine creates SSH host keys at boot")
}

// TestSwapInUseIsKnownByItsWholeName: /swap and /swapfile are unused.
func TestSwapInUseIsKnownByItsWholeName(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		hosttest.Lay(t, "/", map[string]string{
			"swapfile": "memory", "swap": "memory", "swap.img": "memory",
			"run/systemd/system/": "", "tmp/1/root": "-> /", // systemd started this root
			"etc/fstab": "/swapfile none swap sw 0 0\n/swap.img none swap sw 0 0\n",
			"tmp/swaps": "Filename\n/var/swapfile file 1 1 1\n/mnt/swap file 1 1 1\n/swap.img file 1 1 1\n",
		})
		require.NoError(t, unix.Mount("/tmp/swaps", "/proc/swaps", "", unix.MS_BIND, ""))
		require.NoError(t, unix.Mount("/tmp/1", "/proc/1", "", unix.MS_BIND, ""))
		outcomes := apply(t, h, Spec{Only: []string{"swap"}})
		assert.NoFileExists(t, "/swapfile")
		assert.NoFileExists(t, "/swap")
		require.Len(t, outcomes[0].Findings, 1)
		assert.Equal(t, "/swap.img", outcomes[0].Findings[0].Target)
		assert.Equal(t, "/swap.img none swap sw 0 0\n", testkit.Content(t, "/etc/fstab"))
	})
}

// TestAnOfflineRootHasNoKernelState: swap and mounts are those of the machine around it.
func TestAnOfflineRootHasNoKernelState(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		hosttest.Lay(t, "/", map[string]string{
			"swapfile": "memory", "etc/fstab": "", "var/lib/kubelet/": "", "tmp/swaps": "/swapfile file 1 1 1\n",
		})
		require.NoError(t, unix.Mount("/tmp/swaps", "/proc/swaps", "", unix.MS_BIND, ""))
		require.NoError(t, unix.Mount("tmpfs", "/var/lib/kubelet", "tmpfs", unix.MS_NOEXEC, ""))
		apply(t, h, Spec{Only: []string{"swap"}})
		assert.NoFileExists(t, "/swapfile")
		_, checks := plan.Look(t.Context(), h, selected(t, Spec{Only: []string{"noexec-volumes"}}, ToAudit), nil)
		assert.Empty(t, checks[0].Notes)
	})
}
