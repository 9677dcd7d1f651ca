//go:build e2e

package amiimport_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/internal/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

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
	var denied *awsapi.DeniedError
	if errors.As(err, &denied) {
		return err
	}
	return nil
}

// unaudited leaves the audit out, which makes no call.
func unaudited(i *amiimport.Import) { i.Spec.Audit, i.Spec.SkipRules = string(scrub.AuditOff), nil }

// The printed policy is enough for every call of an import, and no action of it can be
// left out.
func TestThePolicyOfAnImportIsTheLeast(t *testing.T) {
	w, double := world(t)
	key := w.Key("")
	double.Quotas, double.Keys, double.EncryptByDefault = ebsdirect.Quotas{}, []string{key}, true
	disk := image(t, clean(t))
	w.Folder = "" // no disks of the images: they are full of garbage
	w.Permit(policyWithout(t, ""))
	require.NoError(t, everything(t, w, disk, key, ""))
	// Without these permissions, the names of regions and quotas are not checked.
	optional := []string{"ec2:DescribeRegions", "servicequotas:GetAWSDefaultServiceQuota", "servicequotas:GetServiceQuota"}
	for _, action := range awsapi.ImportActions() {
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
