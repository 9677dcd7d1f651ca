//go:build e2e

package amiimport_test

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

const (
	parent  = "snap-0123456789abcdef0"
	foreign = "210987654321"
	managed = "arn:aws:kms:eu-west-1:123456789012:key/aws-ebs"
)

// added adds a snapshot that EC2 made.
func added(t *testing.T, d *ebsdirect.Double, s ebsdirect.Snapshot) {
	t.Helper()
	s.Owner = cmp.Or(s.Owner, aws.Account)
	if s.State == "" {
		s.State = ebsdirect.Completed
	}
	s.Size = cmp.Or(s.Size, 1)
	s.ID = parent
	require.NoError(t, d.Add(s, bytes.NewReader(make([]byte, ebsdirect.BlockSize))))
}

func shares(i *amiimport.Import) { i.Spec.Users = []string{foreign} }

// What the account or the other accounts forbid is an error before anything is uploaded.
func TestTheAccountIsCheckedBeforeTheUpload(t *testing.T) {
	w, double := aws.NewWithEBS(t)
	disk := image(t, testkit.CleanNode(t))
	mine, disabled := w.Key(""), w.Key("")
	w.Do("kms:DisableKey", `{"KeyId": "`+path.Base(disabled)+`"}`) // moto wants the ID
	double.Keys = []string{mine}
	child := func(i *amiimport.Import) { i.Spec.ParentSnapshot = parent }
	for name, one := range map[string]struct {
		happens func()
		change  func(*amiimport.Import)
		says    string
	}{
		"name": {func() { w.Images = []*aws.Image{aws.NewImage("ami-01234567", "node", aws.Account, "")} }, nil,
			`--ami-name: the name "node" belongs to your AMI ami-01234567 in eu-west-1; choose another name, or replace the AMI with --force-deregister`},
		"name in another region": {func() {
			w.Images = []*aws.Image{aws.NewImage("ami-01234567", "node", aws.Account, "")}
			w.Images[0].Region = "us-east-1"
		}, func(i *amiimport.Import) { i.Spec.Regions = []string{"us-east-1"} }, `belongs to your AMI ami-01234567 in us-east-1`},
		"region": {nil, func(i *amiimport.Import) { i.Spec.Regions = []string{"us-east-9"} }, `--ami-regions: the region us-east-9 does not exist`},
		"region that is off": {func() { w.Enabled = []string{"eu-west-1"} }, func(i *amiimport.Import) { i.Spec.Regions = []string{"us-east-1"} },
			`--ami-regions: the region us-east-1 is not enabled for this account`},
		"key": {nil, func(i *amiimport.Import) { i.Spec.Encrypt, i.Spec.KMSKey = true, "alias/none" },
			`--kms-key-id: in eu-west-1: describing the KMS key alias/none: NotFoundException`},
		"disabled key": {nil, func(i *amiimport.Import) { i.Spec.Encrypt, i.Spec.KMSKey = true, disabled }, `is in the state Disabled; choose a key in the state Enabled`},
		"key of a copy": {nil, func(i *amiimport.Import) {
			i.Spec.Regions, i.Spec.RegionKeys = []string{"us-east-1"}, map[string]string{"us-east-1": "alias/none"}
		}, `--region-kms-key-ids us-east-1=…: in us-east-1: describing the KMS key alias/none: NotFoundException`},
		"no permission for the key": {func() { double.Keys = nil }, func(i *amiimport.Import) { i.Spec.Encrypt, i.Spec.KMSKey = true, mine }, `starting a snapshot: `},
		"no parent":                 {nil, child, `--parent-snapshot: reading the snapshot snap-0123456789abcdef0: InvalidSnapshot.NotFound`},
		"foreign parent": {func() { added(t, double, ebsdirect.Snapshot{Owner: foreign}) }, child,
			"--parent-snapshot: the snapshot snap-0123456789abcdef0 belongs to the account 210987654321, and only your own snapshot can be a parent; copy it with `aws ec2 copy-snapshot` first"},
		"public parent": {func() { added(t, double, ebsdirect.Snapshot{Owner: foreign, Public: true}) }, child, `belongs to the account 210987654321`},
		"pending parent": {func() { added(t, double, ebsdirect.Snapshot{State: ebsdirect.Pending}) }, child,
			`--parent-snapshot: the snapshot snap-0123456789abcdef0 is in the state pending; only a completed snapshot can be a parent`},
		"parent with an error": {func() { added(t, double, ebsdirect.Snapshot{State: ebsdirect.Errored}) }, child, `is in the state error;`},
		"larger parent": {func() { added(t, double, ebsdirect.Snapshot{Size: 2}) }, child,
			`has 2 GiB, but the disk only 1 GiB; choose another parent, or enlarge the disk`},
		"encryption by default": {func() { w.DefaultKey = mine; added(t, double, ebsdirect.Snapshot{}) }, child,
			"is not encrypted, but the account encrypts new snapshots by default; leave the parent out, or copy it with `aws ec2 copy-snapshot --encrypted` first"},
		"AMI of another account": {func() { w.Images = []*aws.Image{aws.NewImage("ami-01234567", "theirs", foreign, "")} },
			func(i *amiimport.Import) { i.Spec.ParentAMI = "ami-01234567" }, "--parent-ami: the AMI ami-01234567 belongs to the account 210987654321; copy it with `aws ec2 copy-image` first"},
		"AMI without a snapshot": {func() { w.Images = []*aws.Image{aws.NewImage("ami-01234567", "mine", aws.Account, "")} },
			func(i *amiimport.Import) { i.Spec.ParentAMI = "ami-01234567" }, `--parent-ami: the AMI ami-01234567 has no snapshot of a root volume`},
		"shared with AWS's key": {nil, func(i *amiimport.Import) { shares(i); i.Spec.Encrypt = true },
			`sharing the AMI: the snapshot in eu-west-1 would be encrypted with alias/aws/ebs, which other accounts cannot use; set --kms-key-id to a key of your own`},
		"shared with encryption by default": {func() { w.DefaultKey = "alias/aws/ebs" }, shares, `the snapshot in eu-west-1 would be encrypted with alias/aws/ebs`},
		"shared snapshot of a copy": {nil, func(i *amiimport.Import) {
			i.Spec.SnapshotUsers, i.Spec.Regions, i.Spec.RegionKeys = []string{foreign}, []string{"us-east-1"}, map[string]string{"us-east-1": ""}
		}, `the snapshot in us-east-1 would be encrypted with alias/aws/ebs, which other accounts cannot use; set --region-kms-key-ids us-east-1=… to a key of your own`},
		"public with encryption by default": {func() { w.DefaultKey = mine }, func(i *amiimport.Import) { i.Spec.Groups = []string{"all"} },
			`--ami-groups: an AMI with an encrypted snapshot cannot be public, and the one in eu-west-1 would be encrypted`},
		"public with an encrypted parent": {func() { added(t, double, ebsdirect.Snapshot{Encrypted: true, Key: managed}) },
			func(i *amiimport.Import) { child(i); i.Spec.Groups = []string{"all"} }, `--ami-groups: an AMI with an encrypted snapshot cannot be public`},
		"public, but blocked in the region of a copy": {func() { w.BlockPublic = map[string]string{"us-east-1": "account"} },
			func(i *amiimport.Import) { i.Spec.Groups, i.Spec.Regions = []string{"all"}, []string{"us-east-1"} },
			"in us-east-1: --ami-groups: block public access for AMIs is on in us-east-1, so the AMI cannot be public; turn it off with `aws ec2 disable-image-block-public-access --region us-east-1`"},
		"public, but blocked by the organization": {func() { w.BlockPublic = map[string]string{"eu-west-1": "declarative-policy"} },
			func(i *amiimport.Import) { i.Spec.Groups = []string{"all"} }, "a declarative policy of the organization sets it"},
		"quota of AMIs": {func() {
			w.Limits = map[string]int{"L-B665C33B": 1}
			w.Images = []*aws.Image{aws.NewImage("ami-01234567", "other", aws.Account, "")}
			w.Images[0].State = "disabled"
		}, nil, "the quota of AMIs in eu-west-1 is 1, and 1 are used; remove old ones with `eksnode ami retire --deregister`, or request more with " +
			"`aws service-quotas request-service-quota-increase --region eu-west-1 --service-code ec2 --quota-code L-B665C33B --desired-value 2`"},
		"quota of snapshots": {func() {
			w.Limits = map[string]int{"L-309BACF6": 2}
			w.Snapshots = []*aws.Snapshot{{ID: "snap-1", Region: "us-east-1", Owner: aws.Account}, {ID: "snap-2", Region: "us-east-1", Owner: aws.Account}}
		}, func(i *amiimport.Import) { i.Spec.Regions = []string{"us-east-1"} },
			"the quota of snapshots in us-east-1 is 2, and 2 are used; delete those that no AMI has with `eksnode ami retire --orphans`, or request more"},
		"quota of public AMIs": {func() {
			for n := range 5 { // AWS's default
				i := aws.NewImage(fmt.Sprintf("ami-0000000%d", n), fmt.Sprint("public-", n), aws.Account, "")
				i.Public, w.Images = true, append(w.Images, i)
			}
		}, func(i *amiimport.Import) { i.Spec.Groups = []string{"all"} }, "the quota of public AMIs in eu-west-1 is 5, and 5 are used; deregister old ones, or make them private"},
		"late deprecation of a public AMI": {nil, func(i *amiimport.Import) {
			i.Spec.Groups, i.Spec.DeprecateAt = []string{"all"}, time.Now().AddDate(3, 0, 0).UTC().Format(time.RFC3339)
		}, `is more than 2 years away, the most for a public AMI`},
		"protected AMI": {func() {
			added(t, double, ebsdirect.Snapshot{})
			w.Images = []*aws.Image{aws.NewImage("ami-01234567", "node", aws.Account, "")}
			w.Images[0].Protection, w.Images[0].Devices = "enabled", []aws.Drive{{Name: "/dev/xvda", Snapshot: parent}}
		}, func(i *amiimport.Import) { i.Spec.ForceDeregister = true }, `--force-deregister: ami-01234567 in eu-west-1 is protected from deregistration; remove`},
		"pending snapshots": {func() {
			double.Fail("StartSnapshot", 20, ebsdirect.Failure{Status: 402, Code: "ServiceQuotaExceededException", Message: "too many", Reason: "PENDING_SNAPSHOT_LIMIT_EXCEEDED"})
		}, nil, `starting a snapshot: `},
	} {
		t.Run(name, func(t *testing.T) {
			w.Images, w.Snapshots, w.Enabled, w.DefaultKey, double.Keys = nil, nil, nil, "", []string{mine}
			w.BlockPublic, w.Limits = nil, nil
			double.Heal()
			double.Delete(parent)
			if one.happens != nil {
				one.happens()
			}
			before := double.IDs()
			_, err := imported(t, disk, one.change)
			require.ErrorContains(t, err, "")
			assert.Contains(t, surface.InFlags(err), one.says)
			assert.Equal(t, before, double.IDs(), "no snapshot may be left")
			assert.Zero(t, double.Count().Sent)
		})
	}
}

// An alias becomes the ARN that EBS requires, and others may use the key's snapshots.
func TestEncryptedImportsAreShared(t *testing.T) {
	w, double := aws.NewWithEBS(t)
	disk := image(t, testkit.CleanNode(t))
	key := w.Key("")
	w.Do("kms:CreateAlias", `{"AliasName": "alias/nodes", "TargetKeyId": "`+path.Base(key)+`"}`)
	double.Keys = []string{key}
	r, err := imported(t, disk, func(i *amiimport.Import) {
		shares(i)
		i.Spec.Encrypt, i.Spec.KMSKey = true, "alias/nodes"
	})
	require.NoError(t, err)
	assert.Equal(t, key, double.Find(r.Upload.Snapshot.ID).Key)
	assert.Equal(t, []aws.Share{{Account: foreign}}, w.Image("node").Shares)

	// The child of an encrypted snapshot has the parent's key.
	c, err := imported(t, disk, func(i *amiimport.Import) {
		shares(i)
		i.Spec.Name, i.Spec.ParentAMI = "child", r.Image.ID
	})
	require.NoError(t, err)
	assert.Equal(t, key, double.Find(c.Upload.Snapshot.ID).Key)
	assert.Zero(t, c.Upload.Sent, "the parent has all blocks")
}

// Full quotas of what an import does not add stop nothing, and neither do quotas that
// cannot be read. The output says what was not checked.
func TestQuotasThatDoNotMatterStopNothing(t *testing.T) {
	w, _ := aws.NewWithEBS(t)
	disk := image(t, testkit.CleanNode(t))
	_, err := imported(t, disk, nil)
	require.NoError(t, err)
	w.Limits = map[string]int{"L-B665C33B": 1, "L-0E3CBAB9": 0}
	_, err = imported(t, disk, func(i *amiimport.Import) { i.Spec.ForceDeregister = true })
	require.NoError(t, err, "the new AMI replaces the old one")

	w.Limits = nil
	w.Deny("servicequotas:GetAWSDefaultServiceQuota")
	for range 20 {
		w.Snapshots = append(w.Snapshots, &aws.Snapshot{
			ID: "snap-0", Region: "us-east-1", Owner: aws.Account, State: "pending", Description: "Copied for DestinationAmi ami-0 from SourceAmi ami-1 for SourceSnapshot snap-1",
		})
	}
	said, mutex := "", sync.Mutex{}
	_, err = imported(t, disk, func(i *amiimport.Import) {
		i.Spec.Name, i.Spec.Regions, i.DryRun = "second", []string{"us-east-1"}, true
		i.Say = func(format string, args ...any) {
			mutex.Lock()
			defer mutex.Unlock()
			said += fmt.Sprintf(format, args...) + "\n"
		}
	})
	require.NoError(t, err)
	assert.Contains(t, said, "the quotas of AMIs and snapshots in eu-west-1 are not checked: reading the quota of AMIs: the permission servicequotas:GetAWSDefaultServiceQuota is missing")
	assert.Contains(t, said, "EC2 is copying 20 snapshots to us-east-1; unless AWS Support raised the limit, it copies 20 at a time and may refuse another\n")
}

// An AMI of the same name is replaced in every region, after the upload.
func TestForceDeregisterReplacesTheAMI(t *testing.T) {
	w, double := aws.NewWithEBS(t)
	disk := image(t, testkit.CleanNode(t))
	spec := func(i *amiimport.Import) { i.Spec.Regions = []string{"us-east-1"} }
	first, err := imported(t, disk, spec)
	require.NoError(t, err)
	second, err := imported(t, disk, func(i *amiimport.Import) {
		spec(i)
		i.Spec.ForceDeregister, i.Spec.ForceDeleteSnapshot = true, true
	})
	require.NoError(t, err)
	assert.Len(t, w.Images, 2)
	assert.Nil(t, w.Image(first.Image.ID))
	assert.Nil(t, w.Image(first.Copies[0].ID))
	assert.Equal(t, []string{second.Upload.Snapshot.ID}, double.IDs())
	assert.Len(t, w.SnapshotIDs(), 2)
}

// With the flag, the snapshot of a failed import stays, and the same import goes on.
func TestAKeptSnapshotIsUsedAgain(t *testing.T) {
	w, double := aws.NewWithEBS(t)
	disk := image(t, testkit.CleanNode(t))
	w.Fail("ec2:RegisterImage", 20, "InvalidParameterValue", 400)
	folder := t.TempDir()
	keep := func(i *amiimport.Import) { i.Spec.Keep, i.Folder = true, folder }
	_, err := imported(t, disk, keep)
	require.Len(t, double.IDs(), 1)
	require.ErrorContains(t, err, "the snapshot "+double.IDs()[0]+" stays: the same import uploads nothing again")
	w.Heal()
	r, err := imported(t, disk, keep)
	require.NoError(t, err)
	assert.Zero(t, r.Upload.Sent)
	assert.Len(t, double.IDs(), 1)
	assert.Empty(t, testkit.Glob(t, filepath.Join(folder, "*.journal")))
}
