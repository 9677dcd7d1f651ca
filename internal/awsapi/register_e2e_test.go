//go:build e2e

package awsapi_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/stretchr/testify/assert"
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

// node is an image to register.
func node(snapshot string) awsapi.NewImage {
	root := &types.EbsBlockDevice{SnapshotId: &snapshot, VolumeType: "gp3"}
	return awsapi.NewImage{
		Name: new("node"), Architecture: "x86_64", BootMode: "uefi", RootDeviceName: new("/dev/xvda"),
		BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: new("/dev/xvda"), Ebs: root}},
	}
}

func ebsWorld(t *testing.T) (*aws.World, *awsapi.AWS) {
	t.Helper()
	w, _ := aws.NewWithEBS(t)
	return w, open(t, awsapi.Options{Settle: time.Millisecond})
}

func TestRegisteredImagesHaveTheirProperties(t *testing.T) {
	w, a := ebsWorld(t)
	s := snapshotOf(t, a, "root")
	require.Equal(t, map[string]string{"eksnode:distro": "debian"}, s.Tags)
	n := node(s.ID)
	n.Description, n.SriovNetSupport, n.ImdsSupport, n.TpmSupport = new("a node"), new("simple"), "v2.0", "v2.0"
	root := n.BlockDeviceMappings[0].Ebs
	root.VolumeSize, root.Throughput, root.Iops = new(int32(8)), new(int32(250)), new(int32(3000))
	root.VolumeInitializationRate = new(int32(200))
	n.TagSpecifications = awsapi.Tagged(types.ResourceTypeImage, map[string]string{"eksnode:distro": "debian"})
	i, err := a.Register(t.Context(), n)
	require.NoError(t, err)
	require.Equal(t, "v2.0", i.IMDS)
	require.True(t, i.ENA)
	require.Equal(t, []string{s.ID}, i.Snapshots)
	disk, err := os.ReadFile(w.Image("node").Disk.Image)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(disk, []byte("root")))
	require.Len(t, disk, 1<<30)

	with := []types.LaunchPermission{{UserId: new("210987654321")}}
	require.NoError(t, a.Share(t.Context(), i, with, []string{"210987654321"}))
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

// The parameters are the SDK's: e2e/aws has a case for each that EC2 refuses.
func TestImagesThatAreRefused(t *testing.T) {
	_, a := ebsWorld(t)
	s := snapshotOf(t, a, "root")
	n := node(s.ID)
	n.Name = new("a")
	_, err := a.Register(t.Context(), n)
	require.ErrorContains(t, err, "registering the image a: InvalidAMIName.Malformed")
	_, err = a.Register(t.Context(), node(s.ID))
	require.NoError(t, err)
	_, err = a.Register(t.Context(), node(s.ID))
	require.NoError(t, err, "the image is that of a call without an answer")
	_, err = a.Register(t.Context(), node(snapshotOf(t, a, "another").ID))
	require.ErrorContains(t, err, "InvalidAMIName.Duplicate")
}

// written makes a completed snapshot of the account's default key with one block.
func written(t *testing.T, a *awsapi.AWS, n awsapi.NewSnapshot) string {
	t.Helper()
	n.Size, n.Timeout = 1, time.Hour
	id, err := a.StartSnapshot(t.Context(), n)
	require.NoError(t, err)
	block := make([]byte, awsapi.BlockSize)
	copy(block, n.Token)
	sum := sha256.Sum256(block)
	require.NoError(t, a.PutBlock(t.Context(), id, 0, block, sum, time.Now()))
	require.NoError(t, a.CompleteSnapshot(t.Context(), id, 1, sha256.Sum256(sum[:])))
	_, err = a.AwaitSnapshot(t.Context(), id)
	require.NoError(t, err)
	return id
}

// reading makes every call of an audit of an AMI that a parameter names.
func reading(t *testing.T, a *awsapi.AWS) error {
	i, err := a.Image(t.Context(), "resolve:ssm:/node")
	if err != nil {
		return err
	}
	s, err := a.Snapshot(t.Context(), i.Snapshots[0])
	if err != nil {
		return err
	}
	list, err := a.Blocks(t.Context(), s.ID)
	if err != nil {
		return err
	}
	_, err = a.GetBlock(t.Context(), s.ID, list[0].Index, list[0].Token, make([]byte, awsapi.BlockSize))
	return err
}

// The printed policies are enough to read and to compare encrypted snapshots, and no
// action of them can be left out.
func TestThePoliciesForSnapshotsAreTheLeast(t *testing.T) {
	w, a := ebsWorld(t)
	w.Folder = "" // the image needs no disk
	first := written(t, a, awsapi.NewSnapshot{Token: "first", Encrypted: true})
	second := written(t, a, awsapi.NewSnapshot{Token: "second", Parent: first})
	i, err := a.Register(t.Context(), node(first))
	require.NoError(t, err)
	w.Put("/node", i.ID)
	comparing := func(t *testing.T, a *awsapi.AWS) error {
		if err := reading(t, a); err != nil {
			return err
		}
		_, err := a.ChangedBlocks(t.Context(), first, second)
		return err
	}
	for _, one := range []struct {
		policy func(awsapi.Scope) (string, error)
		calls  func(*testing.T, *awsapi.AWS) error
	}{
		{awsapi.SnapshotReadPolicy, reading},
		{awsapi.AuditPolicy, func(t *testing.T, a *awsapi.AWS) error {
			_, err := a.Captured(t.Context(), awsapi.Image{ID: i.ID, Source: i.ID})
			return errors.Join(reading(t, a), err)
		}},
		{awsapi.SnapshotDiffPolicy, comparing},
	} {
		text, err := one.policy(awsapi.Scope{Regions: []string{aws.Region}})
		require.NoError(t, err)
		w.Permit(text)
		require.NoError(t, one.calls(t, a))
		for _, action := range aws.ActionsOf(t, text) {
			w.Permit(strings.Replace(text, `"`+action+`"`, `"none:None"`, 1))
			err := one.calls(t, a)
			if action == "kms:Decrypt" {
				assert.ErrorContains(t, err, "the permission to use the KMS key is missing")
				continue
			}
			assert.ErrorContains(t, err, "the permission "+action+" is missing")
		}
		other, err := one.policy(awsapi.Scope{Regions: []string{"us-east-1"}})
		require.NoError(t, err)
		w.Permit(other)
		assert.ErrorContains(t, one.calls(t, a), "the permission ssm:GetParameter is missing", "another region")
	}
}
