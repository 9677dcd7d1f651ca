package awsapi_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// light returns a light world and its account in the first region.
func light(t *testing.T) (*aws.World, *awsapi.AWS) {
	t.Helper()
	endpoint.Environment(t, nil)
	w := aws.Light(t, t.TempDir())
	a, err := awsapi.Open(t.Context(), awsapi.Options{Region: aws.Region, HTTP: w.Client(nil), Settle: 1, Pause: 1})
	require.NoError(t, err)
	return w, a
}

// An interrupted audit's snapshot is used while it shows the disk of today, and removed later.
func TestOnlyAFreshSnapshotOfANodeIsUsedAgain(t *testing.T) {
	for age, used := range map[time.Duration]bool{time.Minute: true, 2 * time.Hour: false, 7 * 24 * time.Hour: false} {
		w, a := light(t)
		disk := filepath.Join(t.TempDir(), "disk")
		require.NoError(t, os.WriteFile(disk, []byte("disk"), 0o600))
		w.Volumes = map[string]aws.Volume{"vol-1": {Disk: disk}}
		w.Snapshots = []*aws.Snapshot{{Region: aws.Region, ID: "snap-00000001", Volume: "vol-1", Owner: aws.Account,
			State: ebsdirect.Completed, Size: 1, Started: time.Now().Add(-age).UTC().Format(time.RFC3339),
			Tags: []aws.Tag{{Key: awsapi.FleetTag, Value: "i-1"}}}}
		taken, err := a.TakeSnapshot(t.Context(), awsapi.Node{ID: "i-1", Volume: "vol-1"})
		require.NoError(t, err)
		assert.Equal(t, used, taken.ID == "snap-00000001", age)
		assert.Equal(t, []string{taken.ID}, w.SnapshotIDs(), "nothing else is left")
		assert.WithinDuration(t, time.Now(), taken.Started, time.Hour)
	}
}

// A parameter may exist in one of the regions, or name another image in each.
func TestParametersAreFoundInTheirRegion(t *testing.T) {
	w, a := light(t)
	i := aws.NewImage("ami-00000001", "node", aws.Account, "2026-01-01T00:00:00.000Z")
	i.Region = aws.LightRegions[1]
	w.Images = append(w.Images, i)
	w.PutLight(i.Region, "/my/ami", i.ID)
	all := []*awsapi.AWS{a, a.In(i.Region)}
	found, err := awsapi.Find(t.Context(), all, "resolve:ssm:/my/ami")
	require.NoError(t, err)
	assert.Equal(t, i.ID, found.ID)
	assert.Equal(t, i.Region, found.Region)
	_, err = awsapi.Find(t.Context(), all, "resolve:ssm:/other")
	assert.EqualError(t, err, "describing the image resolve:ssm:/other: the image is in none of the 2 regions that "+
		"could be read")
	for _, call := range w.Calls() {
		if call.Action == "DescribeImages" {
			assert.Contains(t, call.Body, "IncludeDisabled=true", "EC2 hides disabled images from other calls")
		}
	}
	second := *i
	second.ID, second.Region = "ami-00000002", aws.Region
	w.Images = append(w.Images, &second)
	w.PutLight(aws.Region, "/my/ami", second.ID)
	for range 20 {
		found, err = awsapi.Find(t.Context(), all, "resolve:ssm:/my/ami")
		require.NoError(t, err)
		assert.Equal(t, second.ID, found.ID, "the first region counts")
	}
}
