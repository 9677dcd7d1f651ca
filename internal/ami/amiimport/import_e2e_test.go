//go:build e2e

package amiimport_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

func TestMain(m *testing.M) {
	if code, child := diskaudit.Child(context.Background(), nil); child {
		os.Exit(code)
	}
	os.Exit(aws.Alone(m.Run))
}

// image makes a disk of 1 GiB with a boot loader's mark and an ext4 root with the
// files.
func image(t *testing.T, files map[string]string) string {
	t.Helper()
	return testkit.DiskOf(t, files, 1024)
}

func imported(t *testing.T, path string, change func(*amiimport.Import)) (amiimport.Result, error) {
	t.Helper()
	i := amiimport.Import{
		Spec: amiimport.Spec{Name: "node", Node: "no", Architecture: "x86_64", Tags: map[string]string{"eksnode:distro": "debian"}},
		Disk: path, Folder: t.TempDir(), Say: t.Logf,
		Open: func(ctx context.Context) (*awsapi.AWS, error) {
			return awsapi.Open(ctx, awsapi.Options{Settle: time.Millisecond, Pause: time.Millisecond})
		},
	}
	if change != nil {
		change(&i)
	}
	return i.Run(t.Context())
}

func TestADiskBecomesAnAMI(t *testing.T) {
	w, _ := aws.NewWithEBS(t)
	path := image(t, testkit.CleanNode(t))
	r, err := imported(t, path, func(i *amiimport.Import) {
		i.Spec.Users, i.Spec.Regions, i.Spec.DeprecateAt = []string{"210987654321"}, []string{"us-east-1"}, "2030-01-31T00:00:00Z"
	})
	require.NoError(t, err)
	require.Equal(t, "legacy-bios", r.Image.BootMode)
	require.Equal(t, "debian", r.Image.Tags["eksnode:distro"])
	require.Len(t, r.Copies, 1)
	require.Equal(t, "us-east-1", r.Copies[0].Region)
	require.Less(t, r.Upload.Sent, 400, "free space does not travel")

	// A volume of the snapshot has the same files.
	out := testkit.Run(t, "unshare", "-m", "sh", "-ec", `for f in "$@"; do
  mount -o loop,ro,noload,offset=1048576 "$f" /mnt
  (cd /mnt; find . -type f | sort | xargs sha256sum)
  umount /mnt
done`, "sh", path, w.Image("node").Disk.Image)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Equal(t, lines[:len(lines)/2], lines[len(lines)/2:])
}

func TestAnImportWithAParentSendsWhatChanged(t *testing.T) {
	_, double := aws.NewWithEBS(t)
	files := testkit.CleanNode(t)
	var folder string
	const secret = "only-the-first-disk-has-this;"
	files["root/key"] = strings.Repeat(secret, 3*ebsdirect.BlockSize/len(secret))
	first, err := imported(t, image(t, files), func(i *amiimport.Import) { folder = i.Folder })
	require.NoError(t, err)
	require.Positive(t, found(t, double, first, secret))
	delete(files, "root/key")
	files["etc/motd"] = strings.Repeat("changed ", 100)
	path := image(t, files)
	for name, one := range map[string]struct {
		folder string
		gets   bool
	}{"with the checksums": {folder, false}, "without": {t.TempDir(), true}} {
		before := double.Count()
		r, err := imported(t, path, func(i *amiimport.Import) {
			i.Folder, i.Spec.Name, i.Spec.ParentAMI = one.folder, "node "+strings.ReplaceAll(name, " ", "-"), first.Image.ID
		})
		require.NoError(t, err, name)
		require.Less(t, r.Upload.Sent, first.Upload.Sent/2, name)
		require.Equal(t, one.gets, double.Count().Fetched > before.Fetched, name)
		require.Zero(t, found(t, double, r, secret), "%s: a deleted file is in the raw bytes of the new AMI", name)
	}
}

// found counts a text in the raw bytes of an import's volume.
func found(t *testing.T, d *ebsdirect.Double, r amiimport.Result, text string) int {
	t.Helper()
	volume, err := d.Volume(r.Upload.Snapshot.ID, false)
	require.NoError(t, err)
	all, err := io.ReadAll(volume)
	require.NoError(t, err)
	return bytes.Count(all, []byte(text))
}

func TestFailedImportsLeaveNothing(t *testing.T) {
	w, double := aws.NewWithEBS(t)
	path := image(t, testkit.CleanNode(t))
	for name, one := range map[string]struct {
		happens func()
		change  func(*amiimport.Import)
		says    string
	}{
		"register": {func() { w.Fail("ec2:RegisterImage", 20, "InvalidParameterValue", 400) }, nil, "registering the image node: InvalidParameterValue"},
		"share":    {func() { w.Fail("ec2:ModifyImageAttribute", 20, "InvalidAMIAttributeItemValue", 400) }, func(i *amiimport.Import) { i.Spec.Users = []string{"210987654321"} }, "sharing the image"},
		"copy":     {func() { w.Fail("ec2:CopyImage", 20, "InvalidRequest", 400) }, func(i *amiimport.Import) { i.Spec.Regions = []string{"us-east-1"} }, "copying the image"},
		"put": {func() {
			double.Fail("PutSnapshotBlock", 100, ebsdirect.Failure{Status: 403, Code: "AccessDeniedException", Message: "no"})
		}, nil, "the permission ebs:PutSnapshotBlock is missing"},
		"parent": {func() {}, func(i *amiimport.Import) { i.Spec.ParentSnapshot = "snap-0123456789abcdef0" }, "InvalidSnapshot.NotFound"},
	} {
		w.Heal()
		double.Heal()
		one.happens()
		_, err := imported(t, path, one.change)
		require.ErrorContains(t, err, one.says, name)
		require.Empty(t, double.IDs(), name)
		require.Empty(t, w.Images, name)
	}
}

// policyWithout is the printed policy for two regions without an action.
func policyWithout(t *testing.T, action string) string {
	t.Helper()
	text, err := awsapi.ImportPolicy(awsapi.Scope{Regions: []string{"eu-west-1", "us-east-1"}})
	require.NoError(t, err)
	var document struct {
		Version   string
		Statement []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(text), &document))
	for _, s := range document.Statement {
		s["Action"] = slices.DeleteFunc(s["Action"].([]any), func(one any) bool { return one == action })
	}
	document.Statement = slices.DeleteFunc(document.Statement, func(s map[string]any) bool { return len(s["Action"].([]any)) == 0 })
	changed, err := json.Marshal(document)
	require.NoError(t, err)
	return string(changed)
}

// everything makes every call of an import: an encrypted snapshot, a child of an AMI that
// a parameter names, a copy, sharing, deprecation, a replacement, and the removal of a
// failed import.
func everything(t *testing.T, w *aws.World, disk, key, action string) error {
	t.Helper()
	w.Images, w.Snapshots = nil, nil
	first, err := imported(t, disk, func(i *amiimport.Import) {
		unaudited(i)
		i.Spec.Encrypt, i.Spec.KMSKey, i.Spec.Regions = true, key, []string{"us-east-1"}
	})
	if err != nil {
		return err
	}
	w.Put("/node", first.Image.ID)
	_, err = imported(t, disk, func(i *amiimport.Import) {
		i.Spec.Name, i.Spec.ParentAMI, i.Spec.DeprecateAt = "child", "resolve:ssm:/node", "2030-01-31T00:00:00Z"
		i.Spec.Users, i.Spec.SnapshotUsers, i.Folder = []string{"210987654321"}, []string{"210987654321"}, filepath.Join(t.TempDir(), "new")
		unaudited(i)
	})
	if err != nil {
		return err
	}
	_, err = imported(t, disk, func(i *amiimport.Import) {
		unaudited(i)
		i.Spec.Name, i.Spec.Groups = "public", []string{"all"}
	})
	if denied := new(awsapi.DeniedError); errors.As(err, &denied) {
		return err
	}
	require.ErrorContains(t, err, "an AMI with an encrypted snapshot cannot be public", action)
	_, err = imported(t, disk, func(i *amiimport.Import) {
		unaudited(i)
		i.Spec.Name, i.Spec.ForceDeregister = "child", true
	})
	if err != nil {
		return err
	}
	w.Fail("ec2:EnableImageDeprecation", 20, "InvalidAMIID.Unavailable", 400)
	_, err = imported(t, disk, func(i *amiimport.Import) {
		unaudited(i)
		i.Spec.Name, i.Spec.DeprecateAt = "failed", "2030-01-31T00:00:00Z"
	})
	require.ErrorContains(t, err, "InvalidAMIID.Unavailable", action)
	if errors.As(err, new(*awsapi.DeniedError)) {
		return err
	}
	return nil
}

// unaudited leaves the audit out, which makes no call.
func unaudited(i *amiimport.Import) { i.Spec.Audit, i.Spec.Node = string(scrub.AuditOff), "" }

// The printed policy is enough for every call of an import, and no action of it can be
// left out.
func TestThePolicyOfAnImportIsTheLeast(t *testing.T) {
	w, double := aws.NewWithEBS(t)
	key := w.Key("")
	double.Quotas, double.Keys, double.EncryptByDefault = ebsdirect.Quotas{}, []string{key}, true
	disk := image(t, testkit.CleanNode(t))
	w.Folder = "" // no disks of the images: they are full of garbage
	w.Permit(policyWithout(t, ""))
	require.NoError(t, everything(t, w, disk, key, ""))
	// Without these permissions, the names of regions and quotas are not checked.
	optional := []string{"ec2:DescribeRegions", "servicequotas:GetAWSDefaultServiceQuota", "servicequotas:GetServiceQuota"}
	for _, action := range aws.ActionsOf(t, policyWithout(t, "")) {
		w.Heal()
		w.Permit(policyWithout(t, action))
		err := everything(t, w, disk, key, action)
		switch {
		case slices.Contains(optional, action):
			assert.NoError(t, err, action)
		case !assert.Error(t, err, action):
		case strings.HasPrefix(action, "kms:"):
			assert.ErrorContains(t, err, strings.TrimSuffix(action, "*"), action)
		default:
			assert.ErrorContains(t, err, "the permission "+action+" is missing", action)
		}
	}
}
