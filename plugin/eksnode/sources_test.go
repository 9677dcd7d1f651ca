package eksnode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
)

// locked returns the entries of a lock file for a Kubernetes version.
func locked(t *testing.T, kubernetes, arch string) []asset.Locked {
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
	return all
}

func TestTheLockFileIsReadOnThePackerHost(t *testing.T) {
	name := filepath.Join(t.TempDir(), "eksnode.lock.json")
	var p Provisioner
	require.EqualError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "lock_file": name}),
		"1 error(s) occurred:\n\n* lock_file: open "+name+`: no such file or directory; "eksnode lock" makes one`)

	data, err := (&asset.Lock{Assets: locked(t, "1.34.4", "arm64")}).Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, data, 0o600))
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "lock_file": name}))
	lock, err := asset.ParseLock(data)
	require.NoError(t, err)
	assert.Equal(t, lock, p.config.Spec.Lock)

	require.NoError(t, os.WriteFile(name, append(data, '!'), 0o600))
	require.EqualError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "lock_file": name}),
		"1 error(s) occurred:\n\n* lock_file "+name+`: not a lock file: line 37, column 1: more text follows the end; restore the file from version control, or delete it and create it again with "eksnode lock"`)

	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "lock_file": "<unknown>", "eks_build_date": "2025-11-13"}), "unknown values must be accepted at validate")
}

// Combinations that no machine can be provisioned with are refused at validate,
// unless a field that matters is still unknown.
func TestImpossibleCombinationsAreRefusedAtValidate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "eksnode.lock.json")
	data, err := (&asset.Lock{Assets: locked(t, "1.33.8", "arm64")}).Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, data, 0o600))
	const unknown = "<unknown>"
	for about, test := range map[string]struct {
		block fields
		want  string // error; empty if accepted
	}{
		"EKS builds without a date": {fields{"source": "eks-bucket"},
			`choosing kubelet: source "eks-bucket" needs eks_build_date, the day of EKS' build, or a lock file: "eksnode lock --source eks-bucket" finds the newest day and records it`},
		"a version that is not locked": {fields{"lock_file": name},
			`the lock file has no kubelet for Kubernetes 1.34.4 on amd64; add it with "eksnode lock --kubernetes-version 1.34.4 --arch amd64"`},
		"an asset version that is not locked": {fields{"kubernetes_version": "1.33.8", "lock_file": name, "versions": fields{"cni-plugins": "1.6.2"}},
			`versions["cni-plugins"] is "1.6.2", but the lock file has 1.9.1; correct the field, or update the lock file`},
		"locked for one architecture": {fields{"kubernetes_version": "1.33.8", "lock_file": name}, ""},
		"a version not known yet":     {fields{"kubernetes_version": unknown, "lock_file": name}, ""},
		"a day not known yet":         {fields{"source": "eks-bucket", "eks_build_date": unknown}, ""},
		"a lock not known yet":        {fields{"source": "eks-bucket", "lock_file": unknown}, ""},
		"a source not known yet":      {fields{"source": unknown, "kubernetes_version": "1.33.8", "lock_file": name}, ""},
		"an asset not known yet":      {fields{"kubernetes_version": "1.33.8", "lock_file": name, "versions": fields{"cni-plugins": unknown}}, ""},
		"a sum not known yet":         {fields{"kubernetes_version": "1.33.8", "lock_file": name, "checksums": fields{"kubelet": unknown}}, ""},
	} {
		t.Run(about, func(t *testing.T) {
			block := fields{"kubernetes_version": "1.34.4"}
			for field, value := range test.block {
				block[field] = value
			}
			var p Provisioner
			if test.want == "" {
				require.NoError(t, p.Prepare(block))
				return
			}
			require.EqualError(t, p.Prepare(block), "1 error(s) occurred:\n\n* "+test.want)
		})
	}
}
