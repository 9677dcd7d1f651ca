//go:build e2e

package bench

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/plugin/eksnode"
)

// BenchmarkProvision turns a machine with all packages into a node: with one
// eksnode block, and with a shell provisioner that uses curl, sha256sum and tar
// for each of the block's steps. Only the block installs eksnode itself and the
// manifest, verifies each step, and flushes each file to disk.
func BenchmarkProvision(b *testing.B) {
	l := openLab(b)
	n := l.boot()
	source := "http://" + l.delayed(strings.TrimPrefix(l.mirror(), "http://"))
	block := func() figures {
		n.block(new(eksnode.Provisioner), map[string]any{
			"kubernetes_version": lab.Kubelet, "source_url": source, "allow_http": true, "versions": map[string]any{
				tools.NameCredentialProvider: newest(b, tools.NameCredentialProvider),
				tools.NameCNIPlugins:         newest(b, tools.NameCNIPlugins),
			},
		})
		return nil
	}
	block()
	first := read(n)
	script, print := first.shell(b), n.sh(first.fingerprint())
	ready := func() { n.ready(first.removal()) }
	check := func() figures {
		counts := n.check("")
		require.Equal(b, print, n.sh(first.fingerprint()), "the machine differs from the result of a block")
		return counts
	}
	ours, _ := race(b, 1, "shell", 0.5,
		way{ready, block, check},
		way{ready, func() figures {
			for _, lines := range script {
				n.shell(lines)
			}
			return nil
		}, check})
	goal(b, "sessions", ours["sessions"], 3)
}

func newest(b *testing.B, name string) string {
	b.Helper()
	_, version, err := tools.Find(name, "")
	require.NoError(b, err)
	return version
}

// made holds the changes that a provision made to a machine.
type made struct {
	actions  []action
	manifest *manifest.Manifest
}

// action is an action of a step. For a file that eksnode wrote itself, it has
// the content.
type action struct {
	plan.Action
	step, content string
}

func read(n *node) (m made) {
	var err error
	m.manifest, err = manifest.Parse([]byte(n.sh("cat " + manifest.Path)))
	require.NoError(n.net.b, err)
	for _, o := range n.did().Outcomes {
		for _, a := range o.Actions {
			one := action{Action: a, step: o.Item}
			if a.Verb == plan.Write && !onlyOurs(o.Item) {
				one.content = n.sh("cat " + a.Target)
			}
			m.actions = append(m.actions, one)
		}
	}
	return m
}

// onlyOurs reports whether a shell provisioner has no counterpart of a step:
// eksnode's own command, its first boot, and the manifest.
func onlyOurs(step string) bool {
	return slices.Contains([]string{"command", "first-boot", "manifest"}, step)
}

// paths returns all files, then the folders, parents first.
func (m made) paths() (files, folders []string) {
	for _, a := range m.manifest.Assets {
		for _, f := range a.Files {
			files = append(files, f.Path)
		}
	}
	for _, t := range m.manifest.Templates {
		files = append(files, t.Path)
	}
	for _, f := range m.manifest.Files {
		files = append(files, f.Path)
	}
	for _, a := range m.actions {
		if a.Verb == plan.Mkdir {
			folders = append(folders, a.Target)
		}
	}
	return append(files, manifest.Path), folders
}

// fingerprint returns a script that prints mode, owner and content of the files
// that both ways must make alike. It also prints whether units that must not
// start at boot are enabled.
func (m made) fingerprint() string {
	ours := []string{manifest.Path}
	for _, a := range m.actions {
		if onlyOurs(a.step) {
			name, _, _ := strings.Cut(a.Target, " ") // the link's target decides
			ours = append(ours, name)
		}
	}
	files, folders := m.paths()
	both := slices.DeleteFunc(append(files, folders...), func(name string) bool { return slices.Contains(ours, name) })
	var units []string
	for _, u := range m.manifest.Units {
		if !u.Enabled {
			units = append(units, u.Name)
		}
	}
	return fmt.Sprintf(`for p in %s; do
	stat -c '%%n %%F %%a %%u:%%g' "$p" || echo "$p is missing"
	if [ -h "$p" ]; then readlink "$p"; elif [ -f "$p" ]; then sha256sum <"$p"; fi
done
for u in %s; do echo "$u $(systemctl is-enabled "$u" || true)"; done`, strings.Join(both, " "), strings.Join(units, " "))
}

// removal returns a script that removes the changes, except the packages.
func (m made) removal() string {
	var text strings.Builder
	files, folders := m.paths()
	fmt.Fprintf(&text, "rm -f %s\n", strings.Join(files, " "))
	for _, folder := range slices.Backward(folders) {
		fmt.Fprintf(&text, "if [ -d %[1]s ]; then rmdir %[1]s; fi\n", folder)
	}
	for _, a := range m.actions {
		switch a.Verb {
		case plan.Disable:
			fmt.Fprintf(&text, "systemctl --quiet enable %s\n", path.Base(a.Target))
		case plan.Link:
			name, _, _ := strings.Cut(a.Target, " to ")
			fmt.Fprintf(&text, "rm -f %s\n", name)
		}
	}
	return text.String() + "systemctl daemon-reload\nsync -f /\n"
}

// shell returns a script for each step with the same result as the block, in
// the style of common scripts.
func (m made) shell(b *testing.B) (scripts []string) {
	b.Helper()
	var last string
	for _, a := range m.actions {
		if a.step == "packages" || onlyOurs(a.step) {
			continue
		}
		if a.step != last {
			scripts, last = append(scripts, ""), a.step
		}
		scripts[len(scripts)-1] += m.line(b, a)
	}
	return scripts
}

func (m made) line(b *testing.B, a action) string {
	b.Helper()
	switch a.Verb {
	case plan.Mkdir:
		return "mkdir -p " + a.Target + "\n"
	case plan.Write:
		return fmt.Sprintf("mkdir -p %s\ncat >%s <<'END-OF-FILE'\n%sEND-OF-FILE\n", path.Dir(a.Target), a.Target, a.content)
	case plan.Link:
		name, to, _ := strings.Cut(a.Target, " to ")
		return fmt.Sprintf("mkdir -p %s\nln -sfn %s %s\n", path.Dir(name), to, name)
	case plan.Disable:
		return "systemctl disable --quiet " + a.Target + "\n"
	case plan.Run:
		return a.Target + "\n"
	case plan.Fetch:
		return m.fetch(b, a.step, a.Target)
	}
	require.Fail(b, "no shell command for an action", "%s: %s", a.step, a.Verb)
	return ""
}

// fetch downloads an asset and its checksum file one after the other, verifies
// the asset, and moves or unpacks it.
func (m made) fetch(b *testing.B, id, target string) string {
	b.Helper()
	recorded, ok := m.manifest.Asset(id)
	require.True(b, ok, id)
	put := "chmod 755 %[1]s\nmv %[1]s %[3]s\n"
	if strings.HasSuffix(recorded.URL, ".tgz") {
		put = "tar -xzf %[1]s --no-same-owner -C %[3]s\nrm %[1]s\n"
	}
	return fmt.Sprintf(`curl -fsSL -o %[1]s.sha256 %[2]s.sha256
curl -fsSL -o %[1]s %[2]s
echo "$(cut -d' ' -f1 <%[1]s.sha256)  %[1]s" | sha256sum --quiet -c -
rm %[1]s.sha256
`+put, "/tmp/"+id, recorded.URL, target)
}

// BenchmarkBuild turns a base image into an audited disk of a node: without a machine, and
// with the same commands on a booted machine, by SSH and with a capture of its disk. All
// packages and programs are in the lab.
func BenchmarkBuild(b *testing.B) {
	l := openLab(b)
	program, folder := lab.Eksnode(b), b.TempDir()
	from, made := filepath.Join(folder, "base.raw"), filepath.Join(folder, "node.raw")
	require.NoError(b, machine.MakeDisk(l.Ctx, l.Root, from))
	options := []string{"--kubernetes-version", lab.Kubelet, "--source-url", l.mirror(), "--allow-http"}
	build := l.Resolving(append([]string{program, "build", "--base", from, "-o", made, "--cache-folder", folder},
		options...))
	ready := func() { sh(b, `rm -f "$1"; sync`, made) }
	audited := func() figures {
		sh(b, `"$1" audit --disk "$2"`, program, made)
		return figures{"changed": (&imported{raw: from}).changed(b, made)}
	}
	our, _ := race(b, 1, "SSH", 0.6, way{ready, func() figures {
		return measured(b, folder, os.Environ(), build.Args...)
	}, audited}, way{ready, func() figures {
		n := l.Start(b, machine.Config{Image: from, InstanceID: "i-bench"})
		n.Upload(b, program, "/var/tmp/eksnode")
		n.Sh(b, "/var/tmp/eksnode provision %s && /var/tmp/eksnode scrub --yes", strings.Join(options, " "))
		n.CaptureTo(b, made)
		return nil
	}, audited})
	goal(b, "MiB", our["MiB"], 200)
	copied, err := strconv.ParseFloat(sh(b, `du --block-size=1 "$1" | cut -f1`, from), 64)
	require.NoError(b, err)
	goal(b, "written/changed", (our["written"]-copied)/our["changed"], 1.1)
}
