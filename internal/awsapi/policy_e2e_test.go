//go:build e2e

package awsapi_test

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

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
	i, err := a.Register(t.Context(), awsapi.NewImage{
		Name: "node", Architecture: "x86_64", BootMode: "uefi", RootDevice: "/dev/xvda", Snapshot: first, VolumeType: "gp3",
	})
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
		policy  func(awsapi.Scope) (string, error)
		actions []string
		calls   func(*testing.T, *awsapi.AWS) error
	}{
		{awsapi.SnapshotReadPolicy, awsapi.SnapshotReadActions(), reading},
		{awsapi.SnapshotDiffPolicy, awsapi.SnapshotDiffActions(), comparing},
	} {
		text, err := one.policy(awsapi.Scope{Regions: []string{aws.Region}})
		require.NoError(t, err)
		w.Permit(text)
		require.NoError(t, one.calls(t, a))
		for _, action := range one.actions {
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
