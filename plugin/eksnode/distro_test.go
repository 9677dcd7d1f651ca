package eksnode

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
)

// With the field distro, Prepare finds what the builder machine would refuse, in
// the same words.
func TestPrepareConsultsTheDistribution(t *testing.T) {
	sum := strings.Repeat("a", 64)
	for about, test := range map[string]struct {
		distro string
		block  fields
		want   string // problem; empty if accepted
	}{
		"a kubelet that does not start": {"amazonlinux2", fields{"kubernetes_version": "1.35.0"},
			`kubernetes_version "1.35.0" does not run on Amazon Linux 2: the newest is 1.34; Amazon Linux 2 has cgroup v1, so its newest kubelet is 1.34. containerd and runc are in the extras repository docker, container-selinux in selinux-ng.`},
		"a version of a package": {"debian", fields{"versions": fields{"containerd": "2.1.5"}},
			`versions["containerd"] has no effect on Debian, which has containerd as a package`},
		"a checksum of a package": {"ubuntu", fields{"checksums": fields{"runc": sum}},
			`checksums["runc"] has no effect on Ubuntu, which has runc as a package`},
		"a version of a program in the image": {"flatcar", fields{"versions": fields{"containerd": "2.1.5"}},
			`versions["containerd"] has no effect on Flatcar Container Linux, which has containerd in its base image`},
		"a version of an archive": {"rocky", fields{"versions": fields{"containerd": "2.1.5"}, "checksums": fields{"runc": sum}}, ""},
		"packages without a package manager": {"flatcar", fields{"packages": []any{"htop"}},
			`packages: Flatcar Container Linux has no package manager, so "htop" cannot be installed`},
		"a package that breaks the distribution": {"fedora", fields{"packages": []any{"zram-generator-defaults"}},
			`packages: "zram-generator-defaults" contradicts what a node needs: the package creates swap, with which a kubelet does not start`},
		"a package version on a rolling distribution": {"arch", fields{"package_versions": fields{"runc": "1.3.4-1"}},
			`package_versions["runc"]: pacman cannot install runc 1.3.4-1: a repository has only the newest version; remove the package from package_versions`},
		"a package version without a package manager": {"flatcar", fields{"package_versions": fields{"runc": "1.3.4-1"}},
			`package_versions["runc"]: this distribution has no package manager and so no package runc; leave packages empty`},
		"FIPS without validated modules": {"debian", fields{"fips": true},
			`fips: Debian has no FIPS mode: its cryptographic modules are not validated`},
		"FIPS with validated modules": {"rhel", fields{"fips": true}, ""},
		"an option without packages": {"flatcar", fields{"efa": true},
			`efa: Flatcar Container Linux does not support it`},
		"a distribution that is not known yet": {"<unknown>", fields{"fips": true}, ""},
		"a version that is not known yet":      {"amazonlinux2", fields{"kubernetes_version": "<unknown>"}, ""},
	} {
		t.Run(about, func(t *testing.T) {
			block := fields{"kubernetes_version": "1.34.4", "distro": test.distro}
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

// A lock file must have the archives that the distribution downloads.
func TestPrepareFindsAnArchiveThatIsNotLocked(t *testing.T) {
	name := filepath.Join(t.TempDir(), "eksnode.lock.json")
	data, err := (&asset.Lock{Assets: locked(t, "1.34.4", "amd64")}).Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, data, 0o600))
	var p Provisioner
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "lock_file": name}))
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "lock_file": name, "distro": "debian"}))
	require.EqualError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "lock_file": name, "distro": "rocky"}),
		`1 error(s) occurred:`+"\n\n"+`* the lock file has no containerd for Kubernetes 1.34.4 on amd64; add it with "eksnode lock --kubernetes-version 1.34.4 --arch amd64"`)
}
