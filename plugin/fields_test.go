package main_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/plugin/eksnode"
	"github.com/eksnode/packer-plugin-eksnode/plugin/scrub"
)

type fields = map[string]any

// provisioner has the methods that the tests call.
type provisioner interface {
	ConfigSpec() hcldec.ObjectSpec
	Prepare(...any) error
}

func provisioners() map[string]provisioner {
	return map[string]provisioner{"eksnode": new(eksnode.Provisioner), "eksnode-scrub": new(scrub.Provisioner)}
}

// everyField returns a value for each field of each provisioner. The values are
// valid together.
func everyField(t *testing.T) map[string]fields {
	t.Helper()
	folder := t.TempDir()
	archive, rules := filepath.Join(folder, "images.tar"), filepath.Join(folder, "rules.yaml")
	require.NoError(t, os.WriteFile(archive, nil, 0o600))
	require.NoError(t, os.WriteFile(rules, []byte("rules:\n- {id: ours, phase: state, action: remove, paths: [/opt/x/y], why: z}\n"), 0o600))
	digest := "@sha256:" + strings.Repeat("a", 64)
	all := map[string]fields{
		"eksnode": {
			"distro": "amazonlinux2023", "kubernetes_version": "1.34.4", "source": "eks-bucket", "eks_build_date": "2025-11-13",
			"source_url": "https://mirror.example/assets", "download_on": "packer-host", "cache_folder": "cache",
			"images": []any{"registry.k8s.io/coredns/coredns:v1.12.1" + digest}, "pause_image": "registry.k8s.io/pause:3.10" + digest,
			"image_archives": []any{archive}, "sbom": true,
			"versions": fields{"cni-plugins": "1.9.1"}, "checksums": fields{"kubelet": strings.Repeat("0a", 32)},
			"containerd": "2", "packages": []any{"htop"}, "package_versions": fields{"ethtool": "1:6.1-1"}, "sysctls": fields{"net.core.somaxconn": "4096"},
			"ca_certificates": fields{"example": authority(t)}, "kernel_arguments": []any{"quiet"},
			"nvidia_container_toolkit": "envvar", "efa": true, "fips": true, "bootstrap": "none", "hardening": []any{"umask", "audit"},
			// A lock file replaces other fields and has its own test.
			"lock_file": "",
		},
		"eksnode-scrub": {
			"distro": "debian", "rules": []any{"kubelet", "ours"}, "skip_rules": []any{"machine-id"}, "rules_file": rules,
			"hash": true, "wipe_free_space": true, "audit": "warn",
		},
	}
	for name, p := range provisioners() {
		maps.Copy(all[name], fields{"dry_run": true, "verbose": true, "report": "reports/report.json", "remote_folder": "/var/tmp", "sudo_command": "doas -n"})
		for field := range p.ConfigSpec() {
			if !strings.HasPrefix(field, "packer_") { // Packer's own
				require.Contains(t, all[name], field, "a field of %s has no value in everyField", name)
			}
		}
	}
	return all
}

// authority returns a CA certificate in PEM.
func authority(t *testing.T) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, public, private)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// unknown returns the values that packer passes to Prepare for a value that is
// wholly or partly unknown.
func unknown(value any) []any {
	const later = "<unknown>"
	switch value := value.(type) {
	case bool:
		return []any{false}
	case []any:
		return []any{[]any{}, []any{later}}
	case fields:
		parts := fields{}
		for key := range value {
			parts[key] = later
		}
		return []any{fields{}, parts}
	default:
		return []any{later, "/opt/" + later}
	}
}

// The page of each provisioner lists every field.
func TestEveryFieldIsOnItsPage(t *testing.T) {
	for name, p := range provisioners() {
		page, err := os.ReadFile("../docs/reference/components/provisioner-" + name + ".md")
		require.NoError(t, err)
		for field := range p.ConfigSpec() {
			if !strings.HasPrefix(field, "packer_") {
				assert.Contains(t, string(page), "\n- `"+field+"` (", "%s", name)
			}
		}
	}
}

// An unknown field at validate never makes Prepare refuse other fields.
func TestEveryFieldMayBeUnknown(t *testing.T) {
	for name, all := range everyField(t) {
		t.Run(name, func(t *testing.T) {
			p := provisioners()[name]
			require.NoError(t, p.Prepare(all))
			nothing := fields{}
			for field, value := range all {
				for _, later := range unknown(value) {
					one := maps.Clone(all)
					one[field] = later
					assert.NoError(t, p.Prepare(one), "%s is %q", field, later)
				}
				nothing[field] = unknown(value)[0]
			}
			require.NoError(t, p.Prepare(nothing))
		})
	}
}
