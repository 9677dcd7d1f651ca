package awsapi

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"golang.org/x/sync/errgroup"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// policiesFile has the policies, and says what their texts mean.
//
//go:embed policies.yaml
var policiesFile []byte

// policies is the content of policiesFile.
var policies = sync.OnceValue(func() (p struct {
	Actions  map[string][]string    `json:"actions"`
	Policies map[string][]statement `json:"policies"`
}) {
	if _, err := strictjson.ReadYAML("policies.yaml", policiesFile, &p); err != nil {
		panic(err) // the file is ours
	}
	return p
})

// ImageActions are the permissions for listing, comparing, publishing and retiring
// images, and no others.
func ImageActions() []string { return policies().Actions["images"] }

// SetupActions are the permissions for reading what a cluster and its account have
// for nodes, and no others.
func SetupActions() []string { return policies().Actions["setup"] }

// statement is a statement of an IAM policy that grants permissions.
type statement struct {
	Sid       string                       `json:"Sid"`
	Effect    string                       `json:"Effect"`
	Action    []string                     `json:"Action"`
	Resource  oneOrMore                    `json:"Resource"`
	Condition map[string]map[string]string `json:"Condition,omitempty"`
	// When is sign or approve for a statement that only such a scope has.
	When string `file:"when" json:"-"`
}

// oneOrMore is a list that IAM also writes as one text.
type oneOrMore []string

func (o oneOrMore) MarshalJSON() ([]byte, error) {
	if len(o) == 1 {
		return json.Marshal(o[0])
	}
	return json.Marshal([]string(o))
}

// Policy is an IAM policy that grants permissions.
func Policy(sid string, actions []string) (string, error) {
	return policy([]statement{{Sid: sid, Effect: "Allow", Action: actions, Resource: oneOrMore{"*"}}})
}

func policy(statements []statement) (string, error) {
	text, err := json.MarshalIndent(struct {
		Version   string
		Statement []statement
	}{"2012-10-17", statements}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing the policy: %w", err)
	}
	return string(text) + "\n", nil
}

// Scope limits a policy to regions and KMS keys. The zero Scope is all regions of the
// partition aws and all keys.
type Scope struct {
	// Regions are regions of one partition.
	Regions []string
	// Keys are ARNs of KMS keys.
	Keys []string
	// Sign adds the permissions for statements to an import, and Approve those for watermarks.
	Sign, Approve bool
}

// partitions are the partitions of regions with a prefix, other than aws
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html).
var partitions = []struct{ prefix, name string }{
	{"cn-", "aws-cn"}, {"us-gov-", "aws-us-gov"}, {"eusc-", "aws-eusc"}, {"us-iso-", "aws-iso"},
	{"us-isob-", "aws-iso-b"}, {"eu-isoe-", "aws-iso-e"}, {"us-isof-", "aws-iso-f"},
}

func partitionOf(region string) string {
	for _, p := range partitions {
		if strings.HasPrefix(region, p.prefix) {
			return p.name
		}
	}
	return "aws"
}

// policy is a policy of policiesFile for the scope.
func (s Scope) policy(name string) (string, error) {
	var all []statement
	for _, one := range policies().Policies[name] {
		if one.When == "sign" && !s.Sign || one.When == "approve" && !s.Approve {
			continue
		}
		one.Effect, one.Resource = "Allow", s.arns(one.Resource)
		all = append(all, one)
	}
	return policy(all)
}

// arns are resources of policiesFile in the scope.
func (s Scope) arns(resources []string) (all oneOrMore) {
	regions := s.Regions
	if len(regions) == 0 {
		regions = []string{"*"}
	}
	for _, resource := range resources {
		if strings.Contains(resource, ":kms:") && len(s.Keys) > 0 {
			return s.Keys
		}
		for _, region := range regions {
			arn := strings.NewReplacer("{partition}", partitionOf(regions[0]), "{region}", region).Replace(resource)
			if !slices.Contains(all, arn) {
				all = append(all, arn)
			}
		}
	}
	return all
}

// AttestPolicy is an IAM policy for signing and verifying statements about images.
func AttestPolicy(s Scope) (string, error) { return s.policy("attest") }

// ApprovePolicy is an IAM policy for approving and revoking images, and for the check of
// the settings.
func ApprovePolicy(s Scope) (string, error) { return s.policy("approve") }

// ImportPolicy is an IAM policy for importing a disk as an AMI.
func ImportPolicy(s Scope) (string, error) { return s.policy("import") }

// AuditPolicy is an IAM policy for auditing an AMI or a snapshot.
func AuditPolicy(s Scope) (string, error) { return s.policy("audit") }

// SnapshotReadPolicy is an IAM policy for reading an AMI or a snapshot.
func SnapshotReadPolicy(s Scope) (string, error) { return s.policy("read") }

// SnapshotDiffPolicy is an IAM policy for comparing the content of two AMIs.
func SnapshotDiffPolicy(s Scope) (string, error) { return s.policy("diff") }

// FleetPolicy is an IAM policy for auditing nodes.
func FleetPolicy(s Scope) (string, error) { return s.policy("fleet") }

// UnknownRegionError is a region that AWS does not have.
type UnknownRegionError struct {
	Name string
	// Known are the regions of the caller's partition.
	Known []string
}

func (e *UnknownRegionError) Error() string {
	return fmt.Sprintf("the region %s does not exist", e.Name)
}

// OpenRegions opens the named regions, or all regions that are enabled for the
// account. Without names, it opens the default region. Named regions are looked up
// if the caller may list the regions.
func OpenRegions(ctx context.Context, o Options, names []string, all bool) ([]*AWS, error) {
	o.Region = ""
	for _, name := range names {
		if err := awsnames.Region.Check(name); err != nil {
			return nil, surface.Errorf("{region}: %w", err)
		}
		o.defaultRegion = cmp.Or(o.defaultRegion, name)
	}
	home, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if !all && len(names) == 0 {
		return []*AWS{home}, nil
	}
	if all {
		if names, _, err = home.regions(ctx); err != nil {
			return nil, err
		}
	} else if err := home.CheckRegions(ctx, names); err != nil {
		return nil, err
	}
	var opened []*AWS
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		opened = append(opened, home.In(name))
	}
	return opened, nil
}

// CheckRegions returns an error for a region that does not exist or is not enabled for
// the account. Without the permission to list regions, all names are accepted.
func (a *AWS) CheckRegions(ctx context.Context, names []string) error {
	enabled, disabled, err := a.regions(ctx)
	if err != nil {
		return nil // the calls in the region have errors of their own
	}
	for _, name := range names {
		if slices.Contains(disabled, name) {
			return fmt.Errorf("the region %s is not enabled for this account; enable the region, or leave it out", name)
		}
		if !slices.Contains(enabled, name) {
			return &UnknownRegionError{name, enabled}
		}
	}
	return nil
}

// In calls AWS in another region with the same credentials.
func (a *AWS) In(region string) *AWS {
	c := a.config.Copy()
	c.Region = region
	in := a.options.connect(c, a.settle)
	in.patience = a.patience
	return in
}

// regions lists the regions of the partition.
func (a *AWS) regions(ctx context.Context) (enabled, disabled []string, err error) {
	out, err := a.ec2.DescribeRegions(ctx, &ec2.DescribeRegionsInput{AllRegions: aws.Bool(true)})
	if err != nil {
		return nil, nil, explain("listing the regions", err)
	}
	for _, r := range out.Regions {
		if aws.ToString(r.OptInStatus) == "not-opted-in" {
			disabled = append(disabled, aws.ToString(r.RegionName))
		} else {
			enabled = append(enabled, aws.ToString(r.RegionName))
		}
	}
	if len(enabled) == 0 {
		return nil, nil, errIncomplete("listing the regions", "enabled region")
	}
	slices.Sort(enabled)
	return enabled, disabled, nil
}

// atOnce is the number of regions that are read at the same time.
const atOnce = 8

// Each reads every region, several at the same time, and returns the results by
// region. A region that fails has no result; the error names the region.
func Each[T any](ctx context.Context, regions []*AWS,
	read func(context.Context, *AWS) (T, error)) (map[string]T, error) {
	results, failures := make([]T, len(regions)), make([]error, len(regions))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for n, a := range regions {
		group.Go(func() error {
			results[n], failures[n] = read(ctx, a)
			return nil
		})
	}
	_ = group.Wait() // the failures are in their list
	byRegion := map[string]T{}
	for n, a := range regions {
		if failures[n] == nil {
			byRegion[a.Region] = results[n]
		}
	}
	return byRegion, inRegions(regions, failures)
}

// inRegions joins the errors of regions. Equal errors are one error that names all
// their regions. If there is only one region, the error does not name it.
func inRegions(regions []*AWS, failures []error) error {
	if len(regions) == 1 {
		return failures[0]
	}
	var errs []error
	for n, err := range failures {
		if err == nil || slices.ContainsFunc(failures[:n],
			func(e error) bool { return e != nil && e.Error() == err.Error() }) {
			continue
		}
		var names []string
		for m, other := range failures {
			if other != nil && other.Error() == err.Error() {
				names = append(names, regions[m].Region)
			}
		}
		errs = append(errs, fmt.Errorf("in %s: %w", strings.Join(names, ", "), err))
	}
	return errors.Join(errs...)
}
