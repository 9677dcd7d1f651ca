package provisioner

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
)

// lockOf is a lock file's content with these entries.
func lockOf(t *testing.T, entries ...asset.Locked) *asset.Lock {
	t.Helper()
	data, err := (&asset.Lock{Assets: entries}).Encode()
	require.NoError(t, err)
	l, err := asset.ParseLock(data)
	require.NoError(t, err)
	return l
}

func TestATamperedLockIsRefused(t *testing.T) {
	tampered := lockOf(t)
	sum := tampered.SHA256
	tampered.SHA256 = strings.Repeat("0", 64)
	require.EqualError(t, Spec{KubernetesVersion: "1.34.4", Sources: Sources{Lock: tampered}}.Validate(),
		"the lock file: the content has the SHA-256 "+sum+", but the field sha256 is "+tampered.SHA256+
			": the file was edited by hand or is damaged; restore the file from version control, or delete it and "+
			`create it again with "eksnode lock"`)
}

func TestTheSpecContainsTheLock(t *testing.T) {
	spec := Spec{KubernetesVersion: "1.34.4", Sources: Sources{Lock: lockOf(t, asset.Locked{
		ID: "kubelet", Kubernetes: "1.34.4", Arch: "amd64", Version: "1.34.4", Origin: asset.EKSBucket, BuildDate: "2025-11-13", Size: 7, SHA256: strings.Repeat("a", 64),
		URL: "https://amazon-eks.s3.us-west-2.amazonaws.com/1.34.4/2025-11-13/bin/linux/amd64/kubelet",
	})}}
	data, err := json.Marshal(spec)
	require.NoError(t, err)
	arrived := testkit.JSON[Spec](t, data)
	require.Equal(t, spec, arrived)
	d := distroOf(t, "debian")
	_, err = Steps(arrived, d, Inputs{Arch: "amd64"})
	require.EqualError(t, err, `the lock file has no ecr-credential-provider for Kubernetes 1.34.4 on amd64; add it with "eksnode lock --kubernetes-version 1.34.4 --arch amd64"`)
	kubelet, err := asset.Table()[0].For(arrived.choice(asset.Table()[0], "amd64", "/usr/bin"))
	require.NoError(t, err)
	assert.Equal(t, spec.Lock.Assets[0].URL, kubelet.URL)
	assert.Equal(t, "the lock file", kubelet.PinnedBy)
}
