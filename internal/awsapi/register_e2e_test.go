//go:build e2e

package awsapi_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// snapshotOf makes a completed snapshot with one block.
func snapshotOf(t *testing.T, a *awsapi.AWS, text string) awsapi.Snapshot {
	t.Helper()
	id := written(t, a, awsapi.NewSnapshot{Token: text, Tags: map[string]string{"eksnode:distro": "debian"}})
	s, err := a.Snapshot(t.Context(), id)
	require.NoError(t, err)
	return s
}

func ebsWorld(t *testing.T) (*aws.World, *awsapi.AWS) {
	t.Helper()
	w := aws.New(t)
	w.Folder = t.TempDir()
	w.Serve()
	w.ServeEBS()
	return w, open(t, awsapi.Options{Settle: time.Millisecond})
}

func TestRegisteredImagesHaveTheirProperties(t *testing.T) {
	w, a := ebsWorld(t)
	s := snapshotOf(t, a, "root")
	require.Equal(t, map[string]string{"eksnode:distro": "debian"}, s.Tags)
	i, err := a.Register(t.Context(), awsapi.NewImage{
		Name: "node", Description: "a node", Architecture: "x86_64", BootMode: "uefi", RootDevice: "/dev/xvda", Snapshot: s.ID, Size: 8, VolumeType: "gp3",
		Throughput: 250, IOPS: 3000, InitializationRate: 200, SRIOV: true, IMDSv2: true, TPM: true, Tags: map[string]string{"eksnode:distro": "debian"},
	})
	require.NoError(t, err)
	require.Equal(t, "v2.0", i.IMDS)
	require.True(t, i.ENA)
	require.Equal(t, []string{s.ID}, i.Snapshots)
	disk, err := os.ReadFile(w.Image("node").Disk.Image)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(disk, []byte("root")))
	require.Len(t, disk, 1<<30)

	require.NoError(t, a.Share(t.Context(), i, awsapi.Shares{Accounts: []string{"210987654321"}}, []string{"210987654321"}))
	require.Equal(t, []aws.Share{{Account: "210987654321"}}, w.Image("node").Shares)
	other := open(t, awsapi.Options{Region: "us-east-1", Settle: time.Millisecond})
	c, err := other.CopyFrom(t.Context(), aws.Region, i.ID, awsapi.Copy{Name: "node", Encrypted: true})
	require.NoError(t, err)
	require.True(t, c.Encrypted)

	require.ErrorContains(t, a.RemoveSnapshot(t.Context(), s.ID), "InvalidSnapshot.InUse")
	w.Behave(aws.Behaviour{InUse: 3})
	require.NoError(t, a.Deregister(t.Context(), i.ID))
	require.NoError(t, a.RemoveSnapshot(t.Context(), s.ID), "EC2 frees the snapshot later")
	require.NoError(t, a.RemoveSnapshot(t.Context(), s.ID), "a snapshot that is gone is no error")
}

func TestImagesThatAreRefused(t *testing.T) {
	w, a := ebsWorld(t)
	w.MayRefuse()
	s := snapshotOf(t, a, "root")
	right := awsapi.NewImage{Name: "node", Architecture: "x86_64", BootMode: "legacy-bios", RootDevice: "/dev/xvda", Snapshot: s.ID, VolumeType: "gp3"}
	for name, one := range map[string]struct {
		change func(*awsapi.NewImage)
		says   string
	}{
		"name":       {func(n *awsapi.NewImage) { n.Name = "a" }, "InvalidAMIName.Malformed"},
		"boot mode":  {func(n *awsapi.NewImage) { n.Architecture = "arm64" }, "boot mode legacy-bios for arm64"},
		"TPM":        {func(n *awsapi.NewImage) { n.TPM = true }, "tpmSupport"},
		"throughput": {func(n *awsapi.NewImage) { n.Throughput = 100 }, "Volume throughput of 100"},
		"rate":       {func(n *awsapi.NewImage) { n.InitializationRate = 400 }, "volumeInitializationRate 400"},
		"UEFI data":  {func(n *awsapi.NewImage) { n.UEFIData = "%" }, "uefiData"},
		"snapshot":   {func(n *awsapi.NewImage) { n.Snapshot = "snap-0123456789abcdef0" }, "InvalidSnapshot.NotFound"},
	} {
		n := right
		one.change(&n)
		_, err := a.Register(t.Context(), n)
		require.ErrorContains(t, err, one.says, name)
		require.ErrorContains(t, err, "registering the image "+n.Name)
	}
	_, err := a.Register(t.Context(), right)
	require.NoError(t, err)
	_, err = a.Register(t.Context(), right)
	require.NoError(t, err, "the image is that of a call without an answer")
	right.Snapshot = snapshotOf(t, a, "another").ID
	_, err = a.Register(t.Context(), right)
	require.ErrorContains(t, err, "InvalidAMIName.Duplicate")
}
