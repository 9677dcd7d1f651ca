package eksnode

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/plugin/remote"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// fields is the content of a block as Packer passes it to Prepare.
type fields = map[string]any

// The tests of the package plugin have every field.
func TestPrepareReadsFields(t *testing.T) {
	report := filepath.Join(t.TempDir(), "made", "later", "report.json")
	var p Provisioner
	require.NoError(t, p.Prepare(fields{
		"kubernetes_version": "1.34.4", "packages": []any{"htop"}, "sysctls": fields{"net.core.somaxconn": "4096"}, "efa": true,
		"dry_run": true, "report": report, "remote_folder": "/var/tmp", "sudo_command": "doas -n",
	}))
	assert.Equal(t, provisioner.Spec{
		KubernetesVersion: "1.34.4", Packages: []string{"htop"}, Sysctls: map[string]string{"net.core.somaxconn": "4096"}, EFA: true,
	}, p.Config.Spec)
	assert.Equal(t, remote.Config{DryRun: true, Report: report, RemoteFolder: "/var/tmp",
		SudoCommand: "doas -n"}, p.Config.Config)
	assert.NoDirExists(t, filepath.Dir(report), "validating must not make folders")
}

// Packer calls Prepare at load, before Provision and before each retry.
func TestPrepareForgetsEarlierCalls(t *testing.T) {
	var p Provisioner
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "packages": []any{"htop"}, "remote_folder": "/opt", "dry_run": true}))
	require.Error(t, p.Prepare(fields{"packages": []any{"jq"}}))
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.5"}))
	assert.Equal(t, provisioner.Spec{KubernetesVersion: "1.34.5"}, p.Config.Spec)
	assert.Equal(t, remote.Config{RemoteFolder: "/tmp", SudoCommand: "sudo -n --"}, p.Config.Config)
}

// Every field of the agent's spec can be set in HCL under the same name.
func TestEveryFieldOfTheSpecIsInHCL(t *testing.T) {
	hcl := new(Provisioner).ConfigSpec()
	for _, f := range reflect.VisibleFields(reflect.TypeFor[provisioner.Spec]()) {
		name, json := f.Tag.Get("mapstructure"), f.Tag.Get("json")
		switch {
		case f.Anonymous: // its fields follow
			assert.Equal(t, ",squash", name, f.Name)
		case name == "-":
			assert.Contains(t, []string{"Lock", "Guide"}, f.Name, "only what files of Local contain may be missing in HCL")
		default:
			assert.Equal(t, strings.TrimSuffix(json, ",omitempty"), name, f.Name)
			assert.Contains(t, hcl, name)
		}
	}
	sources := testkit.Glob(t, "../../provisioner/*.go")
	formats := regexp.MustCompile(`(?:Errorf|add)\(["\x60].*`)
	for _, file := range sources { // errors name options in braces
		text := testkit.Content(t, file)
		for _, format := range formats.FindAllString(text, -1) {
			for _, option := range regexp.MustCompile(`\{([a-z][a-z0-9_]*)\}`).FindAllStringSubmatch(format, -1) {
				assert.Contains(t, hcl, option[1], file)
			}
		}
	}
}

func TestProvisionWithoutACommunicatorFails(t *testing.T) {
	var p Provisioner
	report := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "report": report}))
	ui := &packersdk.BasicUi{Writer: io.Discard}
	comm := &packersdk.MockCommunicator{}
	err := p.Provision(t.Context(), ui, comm, nil)
	require.ErrorContains(t, err, "the communicator answered success without running anything")
	assert.True(t, comm.StartCalled)
	assert.FileExists(t, report)
}

// A lock file must have the archives that the distribution downloads.
func TestPrepareFindsAnArchiveThatIsNotLocked(t *testing.T) {
	name := locked(t, "1.34.4", "amd64")
	var p Provisioner
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "lock_file": name}))
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "lock_file": name, "distro": "debian"}))
	require.EqualError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "lock_file": name, "distro": "rocky"}),
		`1 error(s) occurred:`+"\n\n"+`* the lock file has no containerd for Kubernetes 1.34.4 on amd64; add it with "eksnode lock --kubernetes-version 1.34.4 --arch amd64"`)
}

const pause = "registry.k8s.io/pause:3.10@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// A folder of the Packer host is not sent to the machine.
func TestAFolderOfThePackerHostStaysThere(t *testing.T) {
	var p Provisioner
	folder := t.TempDir()
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "download_on": "packer-host", "source_url": "file://" + folder}))
	spec, err := p.Config.sent()
	require.NoError(t, err)
	assert.Empty(t, spec.SourceURL, "the folder must not be sent to the machine")
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "download_on": "packer-host", "source_url": "https://mirror.example"}))
	spec, err = p.Config.sent()
	require.NoError(t, err)
	assert.Equal(t, "https://mirror.example", spec.SourceURL)
}

// A machine gets only the assets and images that the template names.
func TestMachinesGetOnlyNamedDownloads(t *testing.T) {
	var p Provisioner
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "pause_image": pause, "cache_folder": t.TempDir()}))
	s, err := p.Config.supply("amd64")
	require.NoError(t, err)
	for _, w := range []asset.Wanted{{Asset: "../../etc/shadow"}, {Asset: "file:///etc/shadow"}, {Image: strings.Replace(pause, "3.10", "3.9", 1)}} {
		_, err := s.Supply(t.Context(), w)
		require.Error(t, err)
		assert.True(t, strings.Contains(err.Error(), "there is no such asset") || strings.Contains(err.Error(), "which the template does not name"), err)
	}
}

// locked is a lock file with all downloads of a machine.
func locked(t *testing.T, kubernetes, arch string) string {
	t.Helper()
	var all []asset.Locked
	for _, a := range asset.Table() {
		if a.Chosen {
			continue
		}
		d, err := a.For(asset.Choice{Kubernetes: kubernetes, Arch: arch})
		require.NoError(t, err)
		all = append(all, asset.Locked{
			ID: a.ID, Kubernetes: kubernetes, Arch: arch, Version: d.Version, Origin: d.Origin,
			URL: d.Published, Size: 7, SHA256: strings.Repeat("a", 64),
		})
	}
	name := filepath.Join(t.TempDir(), "eksnode.lock.json")
	data, err := (&asset.Lock{Assets: all}).Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, data, 0o600))
	return name
}

func TestTheLockFileIsReadOnThePackerHost(t *testing.T) {
	name := locked(t, "1.34.4", "arm64")
	data := []byte(testkit.Content(t, name))
	var p Provisioner
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "lock_file": name}))
	lock, err := asset.ParseLock(data)
	require.NoError(t, err)
	assert.Equal(t, lock, p.Config.Spec.Lock)

	require.NoError(t, os.WriteFile(name, append(data, '!'), 0o600))
	require.EqualError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "lock_file": name}),
		"1 error(s) occurred:\n\n* lock_file: "+name+`: not a lock file: line 37, column 1: more text follows the end; restore the file from version control, or delete it and create it again with "eksnode lock"`)
}

// Combinations that no machine can be provisioned with are refused at validate,
// unless a field that matters is still unknown.
func TestImpossibleCombinationsAreRefusedAtValidate(t *testing.T) {
	name := locked(t, "1.33.8", "arm64")
	const unknown = "<unknown>"
	for about, test := range map[string]struct {
		block fields
		want  string // error; empty if accepted
	}{
		"a version that is not locked": {fields{"lock_file": name},
			`the lock file has no kubelet for Kubernetes 1.34.4 on amd64; add it with "eksnode lock --kubernetes-version 1.34.4 --arch amd64"`},
		"an asset version that is not locked": {fields{"kubernetes_version": "1.33.8", "lock_file": name, "versions": fields{"cni-plugins": "1.6.2"}},
			`versions["cni-plugins"] is "1.6.2", but the lock file has 1.10.0; correct the field, or update the lock file`},
		"locked for one architecture": {fields{"kubernetes_version": "1.33.8", "lock_file": name}, ""},
		"a version not known yet":     {fields{"kubernetes_version": unknown, "lock_file": name}, ""},
		"a lock not known yet":        {fields{"source": "eks-bucket", "lock_file": unknown}, ""},
		"a source not known yet":      {fields{"source": unknown, "kubernetes_version": "1.33.8", "lock_file": name}, ""},
		"an asset not known yet":      {fields{"kubernetes_version": "1.33.8", "lock_file": name, "versions": fields{"cni-plugins": unknown}}, ""},
		"a sum not known yet":         {fields{"kubernetes_version": "1.33.8", "lock_file": name, "checksums": fields{"kubelet": unknown}}, ""},
	} {
		t.Run(about, func(t *testing.T) {
			block := fields{"kubernetes_version": "1.34.4"}
			maps.Copy(block, test.block)
			var p Provisioner
			if test.want == "" {
				require.NoError(t, p.Prepare(block))
				return
			}
			require.EqualError(t, p.Prepare(block), "1 error(s) occurred:\n\n* "+test.want)
		})
	}
}
