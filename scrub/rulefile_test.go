package scrub

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

const goodRules = `# ours
rules:
  - id: our-agent
    phase: state
    groups: [agents]
    action: remove
    paths: [/var/lib/our-agent/id, "~/.our-agent"]
    keep: [/var/lib/our-agent/id.default]
    why: every node would report as one
  - id: our-logs
    phase: caches and logs
    action: empty
    paths: [/opt/ours/log]
    why: logs of the build
`

func TestParseRules(t *testing.T) {
	rules, err := ParseRules("ours.yaml", []byte(goodRules))
	require.NoError(t, err)
	require.Len(t, rules, 2)
	assert.Equal(t, Rule{
		ID: "our-agent", Phase: State, Groups: []string{"agents"}, Verb: plan.Remove,
		Paths: []string{"/var/lib/our-agent/id", "~/.our-agent"}, Keep: []string{"/var/lib/our-agent/id.default"},
		Why: "every node would report as one",
	}, rules[0])
	items := selected(t, Spec{Own: rules, Only: []string{"agents", "our-logs"}}, ToScrub)
	assert.Len(t, items, 2)
}

func TestParseRulesRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":           {"", "r.yaml: the text is empty"},
		"no rules":          {"rules: []\n", `r.yaml: the file has no rules; list them under "rules"`},
		"an unknown field":  {strings.Replace(goodRules, "why: every", "reason: every", 1), "r.yaml:9: rules[0].reason: unknown field; known are action, groups, id, keep, owned, owner, paths, phase, regenerated, source, why"},
		"an unknown top":    {"rule: []\n", "r.yaml:1: rule: unknown field; did you mean rules?"},
		"broken YAML":       {"rules:\n  - id: [\n", "r.yaml: line 2: did not find expected node content"},
		"a wrong type":      {strings.Replace(goodRules, "paths: [/opt/ours/log]", "paths: /opt/ours/log", 1), "r.yaml:13: rules[1].paths: must be a list, not text"},
		"two documents":     {goodRules + "---\nrules: []\n", "r.yaml: more than one YAML document; keep one"},
		"an ID of eksnode":  {strings.Replace(goodRules, "id: our-agent", "id: machine-id", 1), `r.yaml:3: rule 1: id: "machine-id" is a rule or group of eksnode; choose another`},
		"an ID twice":       {strings.Replace(goodRules, "id: our-logs", "id: our-agent", 1), `r.yaml:10: rule 2: id: "our-agent" is used twice`},
		"a phase":           {strings.Replace(goodRules, "phase: state", "phase: quiesce", 1), `r.yaml:4: rule 1: phase: "quiesce" is none of state, identity, caches and logs, access`},
		"an action":         {strings.Replace(goodRules, "action: remove", "action: run", 1), `r.yaml:6: rule 1: action: "run" is neither "remove" nor "empty"`},
		"no reason":         {strings.Replace(goodRules, "    why: every node would report as one\n", "", 1), "r.yaml:3: rule 1: why: missing; say what goes wrong if an image contains these files"},
		"a relative path":   {strings.Replace(goodRules, "/opt/ours/log", "opt/ours", 1), `r.yaml:13: rule 2: paths: "opt/ours" must be absolute or start with "~/"`},
		"a list of texts":   {"rules: [x]\n", "r.yaml:1: rules[0]: must be an object, not text"},
		"no list of rules":  {"rules: {id: x}\n", "r.yaml:1: rules: must be a list, not an object"},
		"a list for a text": {"rules:\n  - id: [x]\n", "r.yaml:2: rules[0].id: must be text, not a list"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRules("r.yaml", []byte(c.text))
			require.EqualError(t, err, c.want)
		})
	}
}

// FuzzParseRules reads any rule file. FuzzCheckPath checks the paths.
func FuzzParseRules(f *testing.F) {
	f.Add(goodRules)
	f.Add("rules: [{id: a, paths: ['/a/b/../..']}]")
	for _, p := range []string{"//etc//passwd", "/e*c/pass?d", "/[u]sr/bin/*", "/usr/li?/systemd", "/boot/vmlinuz*", "~/.*", "~//x/", "/opt/ours/[a-z]*", `/opt/ours/\\*`, "/*/*/x", "/root/.*"} {
		f.Add("rules: [{id: a, phase: state, action: remove, owned: true, why: y, keep: ['~/x', '" + p + "'], paths: ['" + p + "']}]")
	}
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := ParseRules("r.yaml", []byte(text))
		if err != nil {
			return
		}
		for _, r := range rules {
			require.NoError(t, check(r))
		}
	})
}

func TestEveryRuleHasAllFields(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Table() {
		t.Run(r.ID, func(t *testing.T) {
			assert.False(t, seen[r.ID], "the ID is used twice")
			seen[r.ID] = true
			assert.Contains(t, append(slices.Clone(rule.Phases), Inspect), r.Phase)
			for field, value := range map[string]string{
				"owner": r.Owner, "why": r.Why, "regenerated": r.Regenerated, "source": r.Source, "verb": string(r.Verb),
			} {
				assert.NotEmpty(t, value, field)
			}
			assert.NotEmpty(t, r.Groups)
			assert.True(t, r.Look != nil || len(r.Paths) > 0, "the rule has neither paths nor a function")
			for _, p := range r.Paths {
				assert.True(t, path.IsAbs(p) || strings.HasPrefix(p, "~/"), p)
				_, err := path.Match(p, "")
				assert.NoError(t, err, p)
			}
		})
	}
}

func TestSelectionOfRules(t *testing.T) {
	for name, c := range map[string]struct {
		spec Spec
		want []string
		err  string
	}{
		"one rule":         {spec: Spec{Only: []string{"machine-id"}}, want: []string{"machine-id"}},
		"a group":          {spec: Spec{Only: []string{"ssh"}}, want: []string{"ssh-host-keys", "ssh-host-keys-elsewhere", "ssh-people", "ssh-passwords", "authorized-keys-elsewhere", "authorized-keys"}},
		"a group less one": {spec: Spec{Only: []string{"ssh"}, Skip: []string{"ssh-people"}}, want: []string{"ssh-host-keys", "ssh-host-keys-elsewhere", "ssh-passwords", "authorized-keys-elsewhere", "authorized-keys"}},
		"unknown":          {spec: Spec{Only: []string{"machineid"}}, err: `rules: no rule, phase or group is named "machineid"; did you mean machine-id?`},
		"unknown skip":     {spec: Spec{Skip: []string{"x"}}, err: `skip_rules: no rule, phase or group is named "x"; known: access, account-backups, `},
		"none left":        {spec: Spec{Only: []string{"machine-id"}, Skip: []string{"identity"}}, err: "no rule is left"},
	} {
		t.Run(name, func(t *testing.T) {
			items, err := c.spec.Items(ToScrub, nil)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorContains(t, c.spec.Validate(ToScrub, nil), c.err)
				return
			}
			require.NoError(t, err)
			ids := show.Each(items, func(i plan.Item) string { return i.ID() })
			assert.Equal(t, c.want, ids)
		})
	}
}

func withPath(name string) Rule {
	return Rule{ID: "x", Phase: State, Verb: plan.Remove, Why: "y", Paths: []string{name}}
}

// Files that the machine needs to boot, package databases and a node's own files
// are refused in every spelling: the file, a parent folder, wildcards, the old
// name of a merged folder, repeated slashes.
func TestRulesForNeededFilesAreRefused(t *testing.T) {
	for _, name := range []string{
		"//etc//passwd", "/etc//passwd/", "/etc/passwd", "/etc/pass*", "/e*c/passwd", "/?tc/shado?", "/etc/[p]asswd", `/etc/pass\wd`,
		"/usr//bin", "/usr/bin/", "/[u]sr/bin/*", "/usr/bin/*", "/usr/bin/?*", "/bin/*", "//bin//bash", "/sbin/init", "/usr/sbin/*", "/u*/s*n",
		"/usr/lib/systemd", "/usr/lib/systemd/systemd", "/usr/li?/systemd", "/usr/lib/systemd/*", "/lib/systemd", "/lib/systemd/system/*", "/usr/lib/systemd/system",
		"/lib/modules/*", "/usr/lib/modules", "/lib/x86_64-linux-gnu", "/lib64/ld-linux-x86-64.so.2", "/lib/aarch64-linux-gnu/libc.so.6",
		"/usr/local/bin", "/usr/local/bin/*", "/usr/local/bin/kubelet", "/usr/local/bin/k*", "/usr/local/*", "/usr/local", "/usr/local/sbin",
		"/usr/bin/containerd", "/usr/bin/nodeadm", "/opt/bin/kubelet", "/usr/bin/runc",
		"/opt/cni", "/opt/cni/*", "/opt/cni/bin", "/opt/cni/bin/", "/opt/cni/bin/*", "/opt/cni/bin/loopback", "/opt/*/bin/bridge",
		"/etc/sudoers", "/etc/sudoers*", "/etc/sudoers.d", "/etc/sudoers.d/*", "/etc/fstab", "/etc/group", "/etc/gshadow", "/etc/pam.d", "/etc/pam.d/common-auth",
		"/etc/ld.so.cache", "/etc/machine-id", "/etc/os-release", "/etc/systemd/system/*", "/etc/nsswitch.conf",
		"/var/lib/dpkg/status", "/var/lib/dpkg/s*", "/var/lib/dpkg", "/var/lib/dpkg/info/*.list", "/var/*/dpkg/info", "/var/lib/rpm/Packages", "/var/lib/rpm",
		"/usr/lib/sysimage/rpm/rpmdb.sqlite", "/usr/lib/sysimage", "/var/lib/pacman/local/bash-5.2-1", "/var/lib/pacman", "/var/lib/*",
		"/boot/vmlinuz*", "/boot/*", "/boot/grub/grub.cfg", "/boot/efi/EFI", "/efi/EFI", "/b??t/vmlinuz-6.1",
		"/var/lib/containerd", "/var/lib/containerd/io.containerd.content.v1.content", "/var/lib/containerd/io.containerd.content.v1.content/blobs/*",
		"/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db", "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs", "/var/lib/kubelet", "/var/lib/kubelet/*",
		"/etc/eks/eksnode/manifest.json", "/etc/eks/eksnode", "/etc/eks/*", "/etc/eks/e*/*.json", "/etc/eks/bootstrap.sh", "/etc/eks/image-credential-provider/*",
		"/dev/sda", "/proc/sys", "/sys/kernel", "/var/run", "/var/run/*",
		"~/.*", "~/.??*", "~/.[a-z]*", "~/[.]*", "~/*", "~/*/*", "~/.*/.*", "~/", "~//", "~/?*",
		"/root", "/root/*", "/root/.*", "/home/admin", "/home/admin/", "/home/admin/*", "/home/admin/.*", "/home/*", "/home/*/*", "/home/*/.*", "/h?me/admin", "/roo[t]/.*",
		"/etc/*", "/etc/[a-z]*", "/usr/l*", "/*/*", "/*/*/*", "/*/lib/dpkg", "/", "//", "/etc", "/opt",
	} {
		err := check(withPath(name))
		if assert.Error(t, err, name) {
			assert.Contains(t, err.Error(), "matches too much", name)
		}
	}
}

// Leftover files of a build lie next to files that the system needs.
func TestRulesForLeftoverFilesAreAccepted(t *testing.T) {
	for _, name := range []string{
		"/opt/ours/log", "/opt//ours//log/", "/var/lib/our-agent", "/var/lib/our-agent/*", "/var/lib/our-agent/id", "/var/lib/our-*/id", "/etc/our-agent/id", "/etc/our-agent",
		"/usr/local/bin/build-helper", "/usr/local/share/ours", "/usr/share/doc", "/usr/share/doc/*", "/etc/sudoers.d/90-packer", "/etc/systemd/system/ours.service",
		"/opt/cni/bin/aws-cni", "/var/log", "/var/log/ours*", "/var/cache/*/old", "/srv/ours", "/var/tmp", "/var/lib/cloud", "/etc/eks/nodeadm.d/ours.yaml",
		"~/.our-agent", "~/.cache/*", "~/.ssh/known_hosts", "~/build", "~/.*/ours", "/root/build", "/home/*/build", "/home/admin/.our-agent", "/var/lib/pacman/sync/*",
		"/run/ours", "/var/run/ours", "/etc/eks/ours.txt", "/var/lib/kubelet/ours",
	} {
		assert.NoError(t, check(withPath(name)), name)
	}
}

func TestMessagesOfRefusedPaths(t *testing.T) {
	for name, want := range map[string]string{
		"//etc//passwd":      `paths: "//etc//passwd" matches too much: the rule would remove a folder or file that the system needs; list files inside the folder instead`,
		"/boot/vmlinuz*":     `paths: "/boot/vmlinuz*" matches too much: the system needs everything below /boot; leave the path out`,
		"/bin/bash":          `paths: "/bin/bash" matches too much: the rule would remove a folder or file that the system needs; list files inside the folder instead`,
		"~/.*":               `paths: "~/.*" matches too much: the rule would remove a top folder of the system or a whole home`,
		"/home/admin":        `paths: "/home/admin" matches too much: the rule would remove a top folder of the system or a whole home`,
		"/opt/[a":            `paths: "/opt/[a" has a wildcard without an end; see path.Match`,
		"/opt/[a/b]/c":       `paths: "/opt/[a/b]/c" has a wildcard without an end; see path.Match`,
		"/opt/./c":           `paths: "/opt/./c" must not contain "." or ".."`,
		"/opt/../etc/x":      `paths: "/opt/../etc/x" must not contain "." or ".."`,
		"/opt/ours/**/x":     `paths: "/opt/ours/**/x" must not contain "**": a wildcard matches within one name`,
		"/opt/ours/a\x00b":   `paths: "/opt/ours/a\x00b" must not contain a zero byte`,
		"":                   `paths: "" must be absolute or start with "~/"`,
		"~":                  `paths: "~" must be absolute or start with "~/"`,
		"~root/.our-agent":   `paths: "~root/.our-agent" must be absolute or start with "~/"`,
		"opt/ours/../../etc": `paths: "opt/ours/../../etc" must be absolute or start with "~/"`,
	} {
		require.EqualError(t, check(withPath(name)), want, name)
	}
}

func TestKeepPathsAreChecked(t *testing.T) {
	for keep, want := range map[string]string{
		"/opt/ours/ca.pem": "", "/opt//ours/": "", "~/.our-agent/*.pem": "", "/opt/ours/*/ca.pem": "",
		"opt/ours":      `keep: "opt/ours" must be absolute or start with "~/"`,
		"ca.pem":        `keep: "ca.pem" must be absolute or start with "~/"`,
		"/opt/[":        `keep: "/opt/[" has a wildcard without an end; see path.Match`,
		"/opt/../x":     `keep: "/opt/../x" must not contain "." or ".."`,
		"/opt/**/x.pem": `keep: "/opt/**/x.pem" must not contain "**": a wildcard matches within one name`,
	} {
		r := withPath("/opt/ours/log")
		r.Keep = []string{keep}
		if want == "" {
			assert.NoError(t, check(r), keep)
			continue
		}
		assert.EqualError(t, check(r), want, keep)
	}
}

func TestOwnedInARuleFileIsABoolean(t *testing.T) {
	rules, err := ParseRules("r.yaml", []byte(strings.Replace(goodRules, "action: remove", "action: remove\n    owned: true", 1)))
	require.NoError(t, err)
	require.Len(t, rules, 2)
	_, err = ParseRules("r.yaml", []byte(strings.Replace(goodRules, "action: remove", "action: remove\n    owned: perhaps", 1)))
	require.EqualError(t, err, "r.yaml:7: rules[0].owned: must be true or false, not text")
}
