//go:build e2e && full

package join_test

import (
	_ "embed"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// plainScript hardens a node by the whole script of a profile. The first database of aide
// takes minutes.
//
//go:embed testdata/plain.sh
var plainScript string

// finding is a line of the audit, with its rule.
var finding = regexp.MustCompile(`(?m)^ +finding .*?\(([a-z0-9-]+): `)

// A node that the whole script of CIS level 2 hardened fails for each reason that the audit
// names, and works with the single exception. Machines of tests share the kernel of the host,
// so these do not show here: a module that is loaded, AppArmor, and auditd, which does not start.
func TestPlainHardeningBreaksTheNodeAsNamed(t *testing.T) {
	w := openWorld(t, lab.System{}, time.Hour)
	i := w.launch("i-plain", w.image, w.b.role, nil)
	defer w.end(i)
	i.Upload(t, lab.Guide(t, "debian13"), "/run/guide.xml")
	enter := func(script string) (string, error) {
		said, err := w.Enter(w.Ctx, i.Address(), script)
		w.step("%.3000s%v", said, err)
		return said, err
	}
	said, err := enter(plainScript)
	require.NoError(t, err)
	var named []string
	for _, found := range finding.FindAllStringSubmatch(said, -1) {
		named = append(named, found[1])
	}
	assert.Subset(t, []string{"host-firewall", "firewall-output", "blocked-overlay", "apparmor-profile", "audit-halts",
		"audit-keeps"}, named)
	for _, b := range []struct {
		rule, says, exception string
		try                   func() error
	}{
		{"firewall-output", "timeout", "ufw default allow outgoing", func() error {
			_, err := enter(string(w.b.bootstrapScript()))
			return err
		}},
		{"host-firewall", ":10250: ", "ufw disable", func() error {
			n, err := w.b.joined(w.Ctx, i.PrivateDNSName, time.Time{}, patience)
			require.NoError(t, err)
			require.NoError(t, w.b.runs(w.Ctx, "plain", n, "word"))
			_, err = w.b.kubectl(w.Ctx, "", "logs", "plain")
			return err
		}},
	} {
		assert.Contains(t, named, b.rule)
		require.ErrorContains(t, b.try(), b.says, b.rule)
		_, err := enter(b.exception)
		require.NoError(t, err)
		said, _ := enter("eksnode audit --rules " + b.rule) // notes do not fail it
		assert.NotContains(t, said, "finding")
		require.NoError(t, b.try(), b.rule)
	}
	assert.Equal(t, "word from word", w.b.await(t, "logs", "plain"))
}

// pods are those that hardening breaks first: one in the host's network, a privileged one that
// mounts a volume as CSI drivers do, and one that serves the volume without rights.
//
//go:embed testdata/pods.yaml
var pods string

// The nodes of an image that the option hardening made join by both contracts, run pods of
// every kind, and do so again after a reboot.
func TestHardenedNodesJoin(t *testing.T) {
	w := openWorld(t, lab.System{}, time.Hour)
	image := filepath.Join(w.Folder(), "hardened.raw")
	maker := w.launch("i-maker", w.image, "nobody", nil)
	maker.Upload(t, lab.Guide(t, "debian13"), "/run/guide.xml")
	server := w.ServeMirror(t, w.Port("8080"), lab.Assets(t).Folder, mirror.Options{})
	w.step("%s", maker.Sh(t, "eksnode provision --verbose --hardening cis-l1 --hardening-content /run/guide.xml"+
		" --kubernetes-version %s --source-url %s --allow-http", lab.Kubelet, server.URL()))
	w.scrubbed(maker, image)
	for id, userData := range map[string][]byte{"i-config": w.b.nodeConfig(), "i-script": w.b.bootstrapScript()} {
		t.Run(id, func(t *testing.T) {
			w := w.in(t)
			i := w.launch(id, image, w.b.role, userData)
			defer w.end(i)
			assert.Contains(t, i.Sh(t, "sshd -T"), "clientaliveinterval 300", "the node must be hardened")
			w.works(w.b, i, id, "word-of-b")
			w.runsEveryKind(i)
			w.reboot(w.b, i)
			w.runsEveryKind(i)
			w.b.must(t, "", "delete", "pod", "--selector=kind=every", "--force")
		})
	}
}

// runsEveryKind requires that the pods run on an instance, and that exec, logs and
// port-forward reach them.
func (w *world) runsEveryKind(i *instance) {
	w.t.Helper()
	w.b.must(w.t, strings.NewReplacer("{node}", i.PrivateDNSName, "{busybox}", busyboxImage).Replace(pods), "apply",
		"--filename=-")
	assert.Equal(w.t, "ok", w.b.await(w.t, "exec", "host", "--", "wget", "-qO-", "http://127.0.0.1:10248/healthz"))
	assert.Equal(w.t, "word", w.b.await(w.t, "exec", "driver", "--", "cat", "/csi/volume/word"))
	assert.Equal(w.t, "word", i.Sh(w.t, "cat /var/lib/kubelet/plugins/lab.csi/volume/word"))
	assert.Equal(w.t, "word", w.b.await(w.t, "exec", "user", "--", "wget", "-qO-", "http://127.0.0.1:8080/word"))
	assert.Regexp(w.t, "word$", w.b.must(w.t, "", "logs", "user"))
	out := testkit.Output(w.t, w.b.command(w.Ctx, "", "sh", "-c", `kubectl port-forward pod/user 8001:8080 > /dev/null & trap "kill $!" EXIT
until busybox wget -qO- http://127.0.0.1:8001/word 2> /dev/null; do kill -0 $! || exit 1; sleep 0.1; done`))
	assert.Equal(w.t, "word\n", out)
	w.step("%s runs pods of every kind", i.InstanceID())
}
