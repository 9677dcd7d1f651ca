package eksnode

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/plugin/remote"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

var _ packersdk.Provisioner = new(Provisioner)

// fields is the content of a block as Packer passes it to Prepare.
type fields = map[string]any

func TestPrepareReadsEveryField(t *testing.T) {
	report := filepath.Join(t.TempDir(), "made", "later", "report.json")
	var p Provisioner
	require.NoError(t, p.Prepare(fields{
		"distro":             "ubuntu",
		"kubernetes_version": "1.34.4",
		"source_url":         "https://mirror.example/assets",
		"containerd":         "2",
		"versions":           fields{"cni-plugins": "1.9.1"},
		"checksums":          fields{"kubelet": strings.Repeat("0a", 32)},
		"packages":           []any{"htop"},
		"sysctls":            fields{"net.core.somaxconn": "4096"},
		"package_versions":   fields{"socat": "1.8.0-1"},
		"kernel_arguments":   []any{"quiet"},
		"hardening":          []any{"umask", "audit"},
		"efa":                true,
		"fips":               true,

		"nvidia_container_toolkit": "envvar",

		"dry_run":       true,
		"report":        report,
		"remote_folder": "/var/tmp",
		"sudo_command":  "doas -n",
	}))
	assert.Equal(t, provisioner.Spec{
		Distro:            "ubuntu",
		KubernetesVersion: "1.34.4",
		SourceURL:         "https://mirror.example/assets",
		Containerd:        "2",
		Versions:          map[string]string{"cni-plugins": "1.9.1"},
		Checksums:         map[string]string{"kubelet": strings.Repeat("0a", 32)},
		Packages:          []string{"htop"},
		Sysctls:           map[string]string{"net.core.somaxconn": "4096"},

		PackageVersions: map[string]string{"socat": "1.8.0-1"}, KernelArguments: []string{"quiet"},
		Hardening: []string{"umask", "audit"}, EFA: true, FIPS: true, NVIDIAContainerToolkit: "envvar",
	}, p.config.Spec)
	assert.Equal(t, remote.Config{DryRun: true, Report: report, RemoteFolder: "/var/tmp", SudoCommand: "doas -n"}, p.config.Config)
	assert.NoDirExists(t, filepath.Dir(report), "validating must not make folders")
}

func TestPrepareDefaults(t *testing.T) {
	var p Provisioner
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4"}))
	assert.Equal(t, provisioner.Spec{KubernetesVersion: "1.34.4"}, p.config.Spec)
	assert.Equal(t, remote.Config{RemoteFolder: "/tmp", SudoCommand: "sudo -n --"}, p.config.Config)
}

func TestPrepareRefusesWrongFields(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, test := range map[string]struct {
		field string
		value any
		want  string
	}{
		"no version":              {"kubernetes_version", "", `kubernetes_version is missing; set a complete version, such as 1.36.3`},
		"a partial version":       {"kubernetes_version", "1.34", `kubernetes_version "1.34" must be complete, such as "1.36.3"; nothing is resolved to "latest"`},
		"an unknown distro":       {"distro", "slackware", `distro "slackware" is not known; known are ` + strings.Join(distros.IDs(), ", ")},
		"an unsupported source":   {"source_url", "ftp://x/y", `source_url "ftp://x/y" must begin with http:// or https:// and a host, or with file:// and an absolute path`},
		"an invalid package":      {"packages", []any{"a b"}, `packages: "a b" is not a package's name; allowed are letters, digits and + . _ -, beginning with a letter or digit`},
		"an invalid checksum":     {"checksums", fields{"kubelet": "x"}, `checksums["kubelet"] = "x" must be a SHA-256: 64 hexadecimal digits`},
		"an invalid sysctl":       {"sysctls", fields{"x": "1"}, `sysctls["x"] is not a sysctl's name; write it with dots, such as net.ipv4.ip_forward`},
		"an invalid authority":    {"ca_certificates", fields{"x": "/etc/ca.pem"}, `ca_certificates["x"]: the text contains no PEM; give the certificate's content, for example with file("ca.pem")`},
		"an unknown hardening":    {"hardening", []any{"everything"}, `hardening: "everything" is not known; known are tmp-noexec, umask, audit`},
		"an invalid argument":     {"kernel_arguments", []any{"a b"}, `kernel_arguments: "a b" is not NAME or NAME=VALUE of letters, digits and . , : / @ % + _ -`},
		"an unknown containerd":   {"containerd", "1", `containerd "1" is not known; known is 2, a major version; set a complete version with versions["containerd"]`},
		"an unknown toolkit mode": {"nvidia_container_toolkit", "yes", `nvidia_container_toolkit "yes" is not known; known are envvar, volume-mounts`},
		"a relative folder":       {"remote_folder", "tmp", `remote_folder: "tmp" is not a clean absolute path of letters, digits, '.', '_', '-' and '/', such as /var/tmp`},
		"a folder with spaces":    {"remote_folder", "/my tmp", `remote_folder: "/my tmp" is not a clean absolute path of letters, digits, '.', '_', '-' and '/', such as /var/tmp`},
		"a folder with dots":      {"remote_folder", "/tmp/../x", `remote_folder: "/tmp/../x" is not a clean absolute path of letters, digits, '.', '_', '-' and '/', such as /var/tmp`},
		"an unknown download_on":  {"download_on", "host", `download_on: "host" is not known; known are machine, packer-host`},
		"an image by its tag":     {"images", []any{"registry.k8s.io/pause:3.10"}, `images: "registry.k8s.io/pause:3.10" has no digest, and a tag may name another image tomorrow: add @sha256:DIGEST, or lock the digest with "eksnode lock --images registry.k8s.io/pause:3.10" and set lock_file`},
		"archives without images": {"image_archives", []any{file}, "image_archives has no effect without images or pause_image: name those that the node shall have"},
		"sudo with a shell":       {"sudo_command", "sudo $X", `sudo_command: the value is not a program with plain arguments, such as "sudo -n --"; quotes, variables, shell operators and two spaces in a row are not allowed`},
		"a folder as report":      {"report", folder, "report: " + folder + " is a folder; name a file in it, such as " + folder + "/report.json"},
		"a report in a file":      {"report", file + "/a/b.json", "report: " + file + " is not a folder, so " + file + "/a/b.json cannot be written"},
	} {
		t.Run(name, func(t *testing.T) {
			var p Provisioner
			block := fields{"kubernetes_version": "1.34.4"}
			block[test.field] = test.value
			require.EqualError(t, p.Prepare(block), "1 error(s) occurred:\n\n* "+test.want)
		})
	}
}

func TestPrepareReportsAllErrorsAtOnce(t *testing.T) {
	var p Provisioner
	err := p.Prepare(fields{"distro": "slackware", "remote_folder": "tmp", "packages": []any{"a b"}})
	require.Error(t, err)
	assert.True(t, strings.HasPrefix(err.Error(), "4 error(s) occurred:\n"), err)
	for _, field := range []string{"kubernetes_version", "distro", "remote_folder", "packages"} {
		assert.Contains(t, err.Error(), "* "+field)
	}
}

func TestPrepareRefusesUnknownFields(t *testing.T) {
	var p Provisioner
	err := p.Prepare(fields{"kubernetes_version": "1.34.4", "kubernetes": "x"})
	require.ErrorContains(t, err, `unknown configuration key: '"kubernetes"'`)
}

// At validate, values that depend on a data source are "<unknown>".
func TestPrepareAcceptsUnknownValues(t *testing.T) {
	const unknown = "<unknown>"
	var p Provisioner
	require.NoError(t, p.Prepare(fields{
		"distro":             unknown,
		"kubernetes_version": unknown,
		"source_url":         unknown,
		"containerd":         unknown,
		"versions":           fields{"cni-plugins": unknown},
		"checksums":          fields{"kubelet": unknown},
		"packages":           []any{unknown, "htop"},
		"sysctls":            fields{"net.core.somaxconn": unknown},
		"package_versions":   fields{"runc": unknown},
		"ca_certificates":    fields{"example": unknown},
		"kernel_arguments":   []any{unknown},
		"hardening":          []any{unknown},
		"images":             []any{unknown},
		"pause_image":        unknown,
		"image_archives":     []any{unknown},
		"download_on":        unknown,
		"cache_folder":       unknown,

		"nvidia_container_toolkit": unknown,

		"dry_run":       false,
		"report":        unknown,
		"remote_folder": unknown,
		"sudo_command":  unknown,
	}))
	err := p.Prepare(fields{"kubernetes_version": unknown, "packages": []any{unknown, "a b"}})
	require.ErrorContains(t, err, `packages: "a b"`, "known values must be checked")
}

// Packer calls Prepare at load, before Provision and before each retry.
func TestPrepareForgetsEarlierCalls(t *testing.T) {
	var p Provisioner
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "packages": []any{"htop"}, "remote_folder": "/opt", "dry_run": true}))
	require.Error(t, p.Prepare(fields{"packages": []any{"jq"}}))
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.5"}))
	assert.Equal(t, provisioner.Spec{KubernetesVersion: "1.34.5"}, p.config.Spec)
	assert.Equal(t, remote.Config{RemoteFolder: "/tmp", SudoCommand: "sudo -n --"}, p.config.Config)
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
			assert.Equal(t, "Lock", f.Name, "only Lock, the content of lock_file, may be missing in HCL")
		default:
			assert.Equal(t, strings.TrimSuffix(json, ",omitempty"), name, f.Name)
			assert.Contains(t, hcl, name)
		}
	}
	for _, name := range []string{"name", "pause_before", "max_retries", "timeout", "only", "except", "override"} {
		assert.NotContains(t, hcl, name, "the name is reserved by Packer")
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
