package main_test

import (
	"crypto/x509"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/plugin/ami"
	"github.com/eksnode/packer-plugin-eksnode/plugin/baseami"
	"github.com/eksnode/packer-plugin-eksnode/plugin/cluster"
	"github.com/eksnode/packer-plugin-eksnode/plugin/contents"
	"github.com/eksnode/packer-plugin-eksnode/plugin/disk"
	"github.com/eksnode/packer-plugin-eksnode/plugin/eksnode"
	"github.com/eksnode/packer-plugin-eksnode/plugin/publish"
	"github.com/eksnode/packer-plugin-eksnode/plugin/scrub"
)

type fields = map[string]any

// component is a provisioner or a post-processor.
type component struct {
	kind, page string
	spec       hcldec.ObjectSpec
	check      func(...any) error
}

func components() map[string]component {
	e, s, a, d := new(eksnode.Provisioner), new(scrub.Provisioner), new(ami.PostProcessor), new(disk.Builder)
	u := new(scrub.Audit)
	return map[string]component{
		"eksnode":       {"provisioner", "provisioner-eksnode", e.ConfigSpec(), e.Prepare},
		"eksnode-scrub": {"provisioner", "provisioner-eksnode-scrub", s.ConfigSpec(), s.Prepare},
		"eksnode-audit": {"provisioner", "provisioner-eksnode-audit", u.ConfigSpec(), u.Prepare},
		"eksnode-ami":   {"post-processor", "post-processor-ami", a.ConfigSpec(), a.Configure},
		"eksnode-disk":  {"builder", "builder-disk", d.ConfigSpec(), func(raws ...any) error { _, _, err := d.Prepare(raws...); return err }},
	}
}

// everyField returns a value for each field of each component. The values are
// valid together.
func everyField(t *testing.T) map[string]fields {
	t.Helper()
	folder := t.TempDir()
	archive, rules := filepath.Join(folder, "images.tar"), filepath.Join(folder, "rules.yaml")
	require.NoError(t, os.WriteFile(archive, nil, 0o600))
	require.NoError(t, os.WriteFile(rules, []byte("rules:\n- {id: ours, phase: state, action: remove, paths: [/opt/x/y], why: z}\n"), 0o600))
	content := filepath.Join(folder, "ssg-fedora-ds.xml")
	require.NoError(t, os.WriteFile(content, []byte(`<Profile id="xccdf_org.ssgproject.content_profile_cis"/>`), 0o600))
	digest := "@sha256:" + strings.Repeat("a", 64)
	authority, _ := testkit.Certificate(t, x509.Certificate{IsCA: true})
	all := map[string]fields{
		"eksnode": {
			"distro": "fedora", "kubernetes_version": "1.34.4", "source": "eks-bucket", "eks_build_date": "2025-11-13",
			"source_url": "http://mirror.example/assets", "allow_http": true, "download_on": "packer-host", "cache_folder": "cache",
			"images": []any{"registry.k8s.io/coredns/coredns:v1.12.1" + digest}, "pause_image": "registry.k8s.io/pause:3.10" + digest,
			"image_archives": []any{archive}, "sbom": true,
			"versions": fields{"cni-plugins": "1.10.0"}, "checksums": fields{"kubelet": strings.Repeat("0a", 32)},
			"containerd": "2", "packages": []any{"htop"}, "package_versions": fields{"ethtool": "1:6.1-1"}, "sysctls": fields{"net.core.somaxconn": "4096"},
			"repositories":      fields{"extra": "[extra]\n"},
			"repository_keys":   fields{"extra": "-----BEGIN PGP PUBLIC KEY BLOCK-----\n-----END PGP PUBLIC KEY BLOCK-----\n"},
			"keep_repositories": true,
			"kubelet_defaults":  "maxPods: 110",
			"registry_mirrors":  fields{"docker.io": "https://mirror.example"},
			"ntp_servers":       []any{"ntp.example"}, "dns_servers": []any{"10.0.0.2"},
			"max_concurrent_downloads": 5, "keep_unpacked_layers": true,
			"proxy": "http://proxy.example:3128", "no_proxy": []any{".example"},
			"node_proxy": "http://proxy.example:3128", "node_no_proxy": []any{".example"},
			"ca_certificates": fields{"example": string(authority)}, "kernel": "linux-lts", "kernel_arguments": []any{"quiet"},
			"nvidia_container_toolkit": "envvar", "nvidia": "open-580", "neuron": true, "efa": true, "agents": []any{"ssm"}, "soci": true, "swap": "zram", "fips": "check", "accept_ended": true, "bootstrap": "eksnode",
			"hardening": []any{"cis-l1", "audit"}, "hardening_exceptions": fields{"package_aide_installed": "a sensor"}, "hardening_content": content,
			"dry_run": true,
			// A lock file replaces other fields and has its own test.
			"lock_file": "",
		},
		"eksnode-scrub": {
			"distro": "debian", "rules": []any{"kubelet", "ours"}, "skip_rules": []any{"machine-id"}, "rules_file": rules,
			"hash": true, "wipe_free_space": true, "audit": "warn", "dry_run": true, "node": "no",
		},
		"eksnode-audit": {
			"distro": "debian", "rules": []any{"kubelet", "ours"}, "skip_rules": []any{"machine-id"}, "rules_file": rules,
			"node": "no",
		},
		"eksnode-disk": {
			"region": "eu-west-1", "profile": "images", "assume_role": "arn:aws:iam::123456789012:role/images", "external_id": "x",
			"endpoint": "https://aws.example", "max_attempts": 3,
			"base": "https://example.com/base.qcow2", "base_checksum": strings.Repeat("0a", 32), "image": "node.qcow2",
			"disk_size": 8, "root_partition": 1, "root_file_system": "xfs", "base_arch": "arm64", "cache_folder": "cache",
		},
		"eksnode-ami": {
			"region": "eu-west-1", "profile": "images", "assume_role": "arn:aws:iam::123456789012:role/images", "external_id": "x",
			"endpoint": "https://aws.example", "max_attempts": 3, "disk": "~/disk.raw", "ami_name": "node", "ami_description": "a node",
			"statement": "node.intoto.jsonl", "statement_key": "alias/images", "watermark": "eksnode/audited", "templates": []any{"node.pkr.hcl"},
			"audit": "fail", "node": "no", "skip_rules": []any{"machine-id"}, "root_partition": 1, "ami_architecture": "x86_64", "boot_mode": "uefi",
			"uefi_data": "QU1aTlVFRkk=", "tpm_support": "v2.0", "sriov_support": true, "root_device_name": "/dev/xvda", "volume_size": 20,
			"volume_type": "gp3", "iops": 3000, "throughput": 125, "volume_initialization_rate": 100, "encrypt_boot": true, "kms_key_id": "alias/images",
			"tags": fields{"team": "nodes"}, "snapshot_tags": fields{"team": "nodes"}, "ami_regions": []any{"us-east-1"},
			"region_kms_key_ids": fields{"us-east-1": "alias/images"}, "ami_users": []any{"210987654321"}, "ami_groups": []any{},
			"ami_org_arns":   []any{"arn:aws:organizations::123456789012:organization/o-123example"},
			"ami_ou_arns":    []any{"arn:aws:organizations::123456789012:ou/o-123example/ou-1234-5example"},
			"snapshot_users": []any{"210987654321"}, "deprecate_at": "2030-01-31T00:00:00Z", "keep_snapshot": true,
			"force_deregister": true, "force_delete_snapshot": true, "imds_support": "v2.0",
			// A snapshot with a parent is encrypted as the parent is, and there is one
			// parent.
			"parent_snapshot": "", "parent_ami": "",
		},
	}
	for name, c := range components() {
		if c.kind == "provisioner" {
			maps.Copy(all[name], fields{"verbose": true, "report": "reports/report.json", "remote_folder": "/var/tmp", "sudo_command": "doas -n"})
		}
		for field := range c.spec {
			if !strings.HasPrefix(field, "packer_") { // Packer's own
				require.Contains(t, all[name], field, "a field of %s has no value in everyField", name)
			}
		}
	}
	return all
}

// unknown returns the values that packer passes to Prepare for a value that is
// wholly or partly unknown.
func unknown(value any) []any {
	const later = "<unknown>"
	switch value := value.(type) {
	case bool:
		return []any{false}
	case int:
		return []any{0}
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

// The page of each component lists every field.
func TestEveryFieldIsOnItsPage(t *testing.T) {
	for name, c := range components() {
		page := testkit.Content(t, "../docs/reference/components/"+c.page+".md")
		for field := range c.spec {
			if !strings.HasPrefix(field, "packer_") {
				assert.Contains(t, page, "\n- `"+field+"` (", "%s", name)
			}
		}
	}
}

// An unknown field at validate never makes a component refuse other fields.
func TestEveryFieldMayBeUnknown(t *testing.T) {
	for name, all := range everyField(t) {
		t.Run(name, func(t *testing.T) {
			check := components()[name].check
			require.NoError(t, check(all))
			nothing := fields{}
			for field, value := range all {
				for _, later := range unknown(value) {
					one := maps.Clone(all)
					one[field] = later
					assert.NoError(t, check(one), "%s is %q", field, later)
				}
				nothing[field] = unknown(value)[0]
			}
			require.NoError(t, check(nothing))
		})
	}
}

// The cases are in testdata/fields.yaml.
func TestWrongFieldsAreRefused(t *testing.T) {
	checks := map[string]func(...any) error{
		"eksnode-publish": new(publish.PostProcessor).Configure, "eksnode-cluster": new(cluster.Datasource).Configure,
		"eksnode-base-ami": new(baseami.Datasource).Configure, "eksnode-contents": new(contents.Datasource).Configure,
	}
	for name, c := range components() {
		checks[name] = c.check
	}
	var cases map[string]struct {
		Base     fields
		Accepted []fields
		Refused  map[string]fields
	}
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, "testdata/fields.yaml")), &cases))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			check := func(block fields) error {
				all := maps.Clone(c.Base)
				if all == nil {
					all = fields{}
				}
				maps.Copy(all, block)
				return checks[name](all)
			}
			for _, block := range c.Accepted {
				assert.NoError(t, check(block), "%v", block)
			}
			for want, block := range c.Refused {
				err := check(block)
				require.Error(t, err, want)
				_, text, joined := strings.Cut(err.Error(), "occurred:\n\n* ")
				if !joined { // it is about what the block has
					text = err.Error()
				}
				pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", "(?s:.*)")
				assert.Regexp(t, "^"+pattern+"$", strings.ReplaceAll(text, "\n* ", "\n"))
			}
		})
	}
}
