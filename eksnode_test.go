//go:build linux

package eksnode_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rules"
)

// image is a Debian root with one thing to scrub.
func image(t *testing.T) (*host.Host, string) {
	t.Helper()
	h := hosttest.Root(t, map[string]string{
		"etc/os-release": "ID=debian\nVERSION_ID=\"12\"\n", "etc/passwd": "root:x:0:0:root:/root:/bin/bash\n",
		"etc/machine-id": "0123456789abcdef0123456789abcdef\n",
		// The header of a program for arm64.
		"usr/bin/dash": "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\xb7\x00",
		"bin":          "-> usr/bin", "usr/bin/sh": "-> dash",
	})
	return h, h.Root()
}

// What changes a machine waits for nobody and works beside nobody; who only
// looks is not kept from that.
func TestOnlyOneRunChangesAMachine(t *testing.T) {
	h, root := image(t)
	other := hosttest.Mounted(t, root)
	unlock, err := other.Lock()
	require.NoError(t, err)
	only := scrub.Spec{Only: []string{"machine-id"}}
	r, err := eksnode.Scrub(t.Context(), h, only, eksnode.Options{})
	require.EqualError(t, err, r.Error)
	assert.Equal(t, plan.Failure, r.Result)
	assert.Regexp(t, `^another eksnode \(pid \d+: .+\) is working on `+root+`; run again when that has ended$`, r.Error)
	assert.NotEmpty(t, testkit.Content(t, filepath.Join(root, "etc/machine-id")))
	for _, want := range []struct {
		result plan.Result
		run    func() (plan.Report, error)
	}{
		{plan.DryRun, func() (plan.Report, error) {
			return eksnode.Scrub(t.Context(), h, only, eksnode.Options{DryRun: true})
		}},
		{plan.Findings, func() (plan.Report, error) { return eksnode.Audit(t.Context(), h, only, eksnode.Options{}) }},
		{plan.OK, func() (plan.Report, error) {
			require.NoError(t, unlock())
			return eksnode.Scrub(t.Context(), h, only, eksnode.Options{})
		}},
	} {
		r, err := want.run()
		require.NoError(t, err)
		assert.Equal(t, want.result, r.Result)
	}
}

// A scrub ends with the audit by the same rules.
func TestAScrubEndsWithTheAudit(t *testing.T) {
	h, root := image(t)
	testkit.Write(t, filepath.Join(root, "opt/app.conf"), "token = ghp_0123456789abcdefghijABCDEFGHIJ012345\n")
	for _, c := range []struct {
		audit   scrub.Audit
		skip    []string
		dry     bool
		result  plan.Result
		verdict plan.Result // "" for no audit
	}{
		{"", nil, true, plan.DryRun, plan.Findings},
		{"", nil, false, plan.Findings, plan.Findings},
		{scrub.AuditFails, nil, false, plan.Findings, plan.Findings},
		{scrub.AuditWarns, nil, false, plan.OK, plan.Findings},
		{scrub.AuditFails, []string{"secrets-left"}, false, plan.OK, plan.Clean},
		{scrub.AuditOff, nil, false, plan.OK, ""},
		{scrub.AuditOff, nil, true, plan.DryRun, ""},
		{"maybe", nil, false, plan.Failure, ""},
	} {
		spec := scrub.Spec{Only: []string{"secrets", "machine-id"}, Skip: c.skip, Audit: c.audit}
		r, err := eksnode.Scrub(t.Context(), h, spec, eksnode.Options{DryRun: c.dry})
		assert.Equal(t, c.result == plan.Failure, err != nil, "findings are a result and no error")
		assert.Equal(t, c.result, r.Result, "%+v: %s", c, r.Error)
		var verdict plan.Result
		if r.Audit != nil {
			verdict = r.Audit.Result
		}
		assert.Equal(t, c.verdict, verdict, "%+v", c)
	}
	r, err := eksnode.Audit(t.Context(), h, scrub.Spec{Audit: scrub.AuditWarns}, eksnode.Options{})
	require.EqualError(t, err, "audit is a field of a scrub, and has no effect on an audit")
	assert.Equal(t, plan.Unknown, r.Result)
}

// login is a program that records a login whenever the audit begins, at most so often.
type login struct {
	seen
	file, record string
	times        int
}

func (l *login) Begin(item, phase string, actions int) {
	l.seen.Begin(item, phase, actions)
	if item == "audit" && l.times > 0 {
		l.times--
		_ = os.WriteFile(l.file, []byte("a record"), 0o600)
		_ = os.Chtimes(l.record, time.Unix(1, 0), time.Unix(1, 0))
	}
}

// What a program writes once while the scrub runs is removed too: a person who repeats
// the run would have that result. A program that writes on and on is reported.
func TestWhatIsWrittenDuringTheScrubIsRemoved(t *testing.T) {
	for times, want := range map[int]plan.Result{0: plan.OK, 1: plan.OK, 2: plan.Findings} {
		h, root := image(t)
		file, record := filepath.Join(root, "var/log/wtmp"), filepath.Join(root, "etc/eks/eksnode/scrubbed.json")
		testkit.Write(t, file, "records")
		r, err := eksnode.Scrub(t.Context(), h, scrub.Spec{Only: []string{"login-records", "machine-id"}},
			eksnode.Options{Sink: &login{file: file, record: record, times: times}})
		require.NoError(t, err)
		ended, err := os.Stat(record)
		require.NoError(t, err)
		assert.Equal(t, times < 2, ended.ModTime().After(time.Unix(1, 0)), "the scrub ends after its last change")
		assert.Equal(t, want, r.Result, "%d: %s", times, r.Error)
		require.Len(t, r.Outcomes, 2)
		assert.Equal(t, 2, r.Totals.Items)
		assert.Equal(t, 2, r.Totals.Changed)
		records := slices.IndexFunc(r.Outcomes, func(o plan.Outcome) bool { return o.Item == "login-records" })
		assert.Len(t, r.Outcomes[records].Actions, min(times, 1)+1)
		if want == plan.Findings {
			assert.Contains(t, r.Error, "a running program has written again after the scrub, stop that program first: "+
				"empty /var/log/wtmp")
		}
	}
}

func TestWhatCannotBegin(t *testing.T) {
	h, root := image(t)
	node := provisioner.Spec{KubernetesVersion: "1.34.4"}
	r, err := eksnode.Provision(t.Context(), h, node, eksnode.Options{})
	require.ErrorIs(t, err, host.ErrMountedRoot)
	assert.Equal(t, plan.Failure, r.Result)
	assert.Equal(t, err.Error(), r.Error)

	live := hosttest.Live(t)
	// A check that is missing must not provision the machine of the tests.
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = eksnode.Provision(over, live, node, eksnode.Options{})
	require.ErrorContains(t, err, "the running program is not eksnode; set Options.Command")
	foreign := filepath.Join(t.TempDir(), "eksnode") // of an architecture that nodes cannot have
	require.NoError(t, os.WriteFile(foreign, append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 57)...), 0o755))
	_, err = eksnode.Provision(over, live, node, eksnode.Options{Command: foreign})
	require.ErrorContains(t, err,
		"the command that the node gets is built for another system, but the machine is "+runtime.GOARCH)

	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/os-release"), []byte("ID=plan9\n"), 0o644))
	r, err = eksnode.Audit(t.Context(), h, scrub.Spec{}, eksnode.Options{})
	require.ErrorContains(t, err, `"plan9"`)
	assert.Equal(t, plan.Unknown, r.Result, "an audit with a rule that could not run has not found anything")
}

// The architecture is the image's, whatever the program was built for.
func TestADryRunOnAnImageOfAnotherArchitecture(t *testing.T) {
	h, root := image(t)
	r, err := eksnode.Provision(t.Context(), h, provisioner.Spec{KubernetesVersion: "1.34.4"}, eksnode.Options{DryRun: true})
	require.NoError(t, err)
	assert.Equal(t, plan.Machine{Distro: "debian", Version: "12", Arch: "arm64", Root: root}, r.Machine)
	assert.Equal(t, plan.DryRun, r.Result, r.Error)
	require.NoError(t, os.Remove(filepath.Join(root, "usr/bin/sh")))
	_, err = eksnode.Provision(t.Context(), h, provisioner.Spec{KubernetesVersion: "1.34.4"}, eksnode.Options{DryRun: true})
	require.ErrorContains(t, err, "the machine's architecture is unknown")
}

// Every supported version of every distribution has a plan on both
// architectures.
func TestPlansOfAllDistributions(t *testing.T) {
	spec := provisioner.Spec{KubernetesVersion: "1.34.4"}
	for _, d := range distros.All() {
		versions := d.Versions
		if len(versions) == 0 {
			versions = []string{""}
		}
		for _, version := range versions {
			for _, arch := range []string{"amd64", "arm64"} {
				m := eksnode.Machine{Distro: known(t, d.ID), Version: version, Arch: arch}
				planned, err := eksnode.Plan(t.Context(), spec, m)
				require.NoError(t, err, "%+v", m)
				assert.NotEmpty(t, planned)
				for _, p := range planned {
					assert.Empty(t, p.Error, "%+v", m)
				}
			}
		}
	}
}

func TestPlansThatAreRefused(t *testing.T) {
	spec := provisioner.Spec{KubernetesVersion: "1.34.4"}
	for name, c := range map[string]struct {
		spec provisioner.Spec
		m    eksnode.Machine
		err  string
	}{
		"no such distribution": {spec, eksnode.Machine{Distro: distros.Distro{ID: "plan9"}, Arch: "amd64"}, `distribution "plan9": Name is empty`},
		"no such version":      {spec, eksnode.Machine{Distro: known(t, "debian"), Version: "3", Arch: "amd64"}, "is not Debian, which has the IDs debian and the versions 12, 13"},
		"another's version":    {spec, eksnode.Machine{Distro: known(t, "opensuse-leap-16"), Version: "15.6", Arch: "amd64"}, "is not openSUSE Leap 16"},
		"no such architecture": {spec, eksnode.Machine{Distro: known(t, "debian"), Version: "12", Arch: "riscv64"}, `"riscv64" is not supported`},
		"no Kubernetes":        {provisioner.Spec{}, eksnode.Machine{Distro: known(t, "debian"), Version: "12", Arch: "amd64"}, "kubernetes_version"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := eksnode.Plan(t.Context(), c.spec, c.m)
			require.ErrorContains(t, err, c.err)
		})
	}
}

// The audit at the end of a scrub knows the machine ID that the scrub removed.
func TestTheAuditOfAScrubKnowsTheOldMachineID(t *testing.T) {
	h, root := image(t)
	id := "0123456789abcdef0123456789abcdef"
	hosttest.Lay(t, root, map[string]string{"etc/machine-id": id + "\n", "etc/kernel/entry-token": id + "\n", "etc/app/id": id + "\n"})
	r, err := eksnode.Scrub(t.Context(), h, scrub.Spec{Only: []string{"identity"}}, eksnode.Options{})
	require.NoError(t, err)
	assert.Equal(t, plan.Findings, r.Result)
	assert.Contains(t, r.Error, "/etc/app/id")
	assert.NoFileExists(t, filepath.Join(root, "etc/kernel/entry-token"))
}

// A user who may not change all files changes none. An image root of the user's
// own is scrubbed.
func TestAScrubThatWouldFailHalfwayIsRefused(t *testing.T) {
	const user = 65534
	h, root := image(t)
	left := filepath.Join(root, "etc/machine-id")
	require.NoError(t, os.WriteFile(left, []byte("0123456789abcdef0123456789abcdef\n"), 0o644))
	chown := func(uid int) {
		require.NoError(t, filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(name, uid, uid))
		}))
	}
	as := func(h *host.Host) error {
		require.NoError(t, syscall.Seteuid(user))
		_, err := eksnode.Scrub(t.Context(), h, scrub.Spec{Only: []string{"machine-id"}, Audit: scrub.AuditOff}, eksnode.Options{})
		return errors.Join(err, syscall.Seteuid(0))
	}
	live := hosttest.Live(t)
	require.ErrorContains(t, as(live), "eksnode runs as user 65534, but only root can scrub a machine")
	chown(user)
	require.NoError(t, os.Lchown(filepath.Join(root, "etc/passwd"), 0, 0))
	require.ErrorContains(t, as(h), "/etc/passwd in the image root belongs to user 0")
	assert.NotEmpty(t, testkit.Content(t, left))

	chown(user)
	require.NoError(t, as(h))
	assert.NotContains(t, testkit.Content(t, left), "0123456789abcdef")
}

// A provision after a scrub warns at its end, and the audit of the image fails until
// the next scrub.
func TestAProvisionAfterAScrubWarns(t *testing.T) {
	h, root := image(t)
	spec := provisioner.Spec{KubernetesVersion: "1.34.4"}
	warned := func() int {
		r, err := eksnode.Provision(t.Context(), h, spec, eksnode.Options{DryRun: true})
		require.NoError(t, err)
		n := 0
		for _, text := range r.Warnings {
			if strings.HasPrefix(text, "this provision follows a scrub") {
				n++
			}
		}
		return n
	}
	order := scrub.Spec{Only: []string{"order"}}
	result := func() plan.Result {
		r, err := eksnode.Audit(t.Context(), h, order, eksnode.Options{})
		require.NoError(t, err)
		return r.Result
	}
	only := scrub.Spec{Only: []string{"machine-id"}}
	assert.Zero(t, warned())
	for range 2 {
		_, err := eksnode.Scrub(t.Context(), h, only, eksnode.Options{})
		require.NoError(t, err)
		assert.Equal(t, 1, warned())
		assert.Equal(t, plan.Clean, result())
		follows, err := rules.Provisioned(h, false)
		require.NoError(t, err)
		assert.True(t, follows)
		assert.Equal(t, plan.Findings, result())
	}
	text := testkit.Content(t, filepath.Join(root, "etc/eks/eksnode/scrubbed.json"))
	assert.NotContains(t, text, "0123456789abcdef", "the record must not identify the machine")
}

func known(t *testing.T, id string) distros.Distro {
	t.Helper()
	d, err := distros.ByID(id)
	require.NoError(t, err)
	return d
}

// seen is a plan.Sink that records the items.
type seen []string

func (s *seen) Begin(item, _ string, _ int)                { *s = append(*s, item) }
func (s *seen) Progress(string, plan.Action, int64, int64) {}
func (s *seen) End(o plan.Outcome)                         { *s = append(*s, o.Item+" "+string(o.Status)) }

// A program's own distribution and rules work in every run, and an option without
// effect is an error.
func TestOwnDistributionAndRules(t *testing.T) {
	own := known(t, "debian")
	own.ID, own.Name, own.OSRelease = "examplelinux", "Example Linux", []string{"examplelinux"}
	files := map[string]string{"/etc/os-release": "ID=examplelinux\nVERSION_ID=12\n", "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "/opt/x": "x", "/usr/bin/sh": ""}
	rule := scrub.Rule{ID: "x", Phase: scrub.State, Verb: plan.Remove, Paths: []string{"/opt/x"}, Why: "x"}
	h := hosttest.Root(t, files)
	var progress seen
	o := eksnode.Options{Distro: &own, Rules: []scrub.Rule{rule}, Sink: &progress}
	spec := scrub.Spec{Only: []string{"x", "apt-state"}}
	r, err := eksnode.Audit(t.Context(), h, spec, o)
	require.NoError(t, err)
	assert.Equal(t, plan.Findings, r.Result)
	assert.Equal(t, "examplelinux", r.Machine.Distro)
	assert.Equal(t, seen{"x", "x unchanged", "apt-state", "apt-state unchanged"}, progress)
	r, err = eksnode.Scrub(t.Context(), h, spec, o)
	require.NoError(t, err)
	assert.Equal(t, plan.OK, r.Result)
	assert.NoFileExists(t, filepath.Join(h.Root(), "opt/x"))

	broken := own
	broken.CASuffix = ""
	other := known(t, "fedora")
	for want, o := range map[string]eksnode.Options{
		`distribution "examplelinux": CASuffix is empty`:           {Distro: &broken},
		"is not Fedora, which has the IDs fedora and the versions": {Distro: &other},
		"Options.DryRun has no effect on an audit":                 {Distro: &own, DryRun: true},
		"Options.Command has no effect on a scrub or an audit":     {Distro: &own, Command: "/x"},
		"Options.Supply has no effect on a scrub or an audit":      {Distro: &own, SupplyAssets: true},
		`own rule "machine-id": `:                                  {Distro: &own, Rules: []scrub.Rule{{ID: "machine-id"}}},
	} {
		_, err := eksnode.Audit(t.Context(), h, scrub.Spec{}, o)
		require.ErrorContains(t, err, want)
	}
	_, err = eksnode.Audit(t.Context(), h, scrub.Spec{Distro: "debian"}, o)
	require.ErrorContains(t, err, "both name the distribution")
	_, err = eksnode.Provision(t.Context(), h, provisioner.Spec{KubernetesVersion: "1.34.4"}, o)
	require.ErrorContains(t, err, "Options.Rules has no effect on a provision")
}
