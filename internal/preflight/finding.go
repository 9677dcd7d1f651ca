// Package preflight finds reasons why a node would not join its cluster before the
// node starts. It checks the cluster, the image, the launch template or instance,
// the role and the network together. It changes nothing.
package preflight

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

// Verdict is the result of a check.
type Verdict string

// The verdicts.
const (
	OK   Verdict = "OK"
	Fail Verdict = "FAIL"
	// Warn means that the setup may or may not work; preflight cannot decide.
	Warn Verdict = "WARN"
	// Unknown means that the check could not run.
	Unknown Verdict = "UNKNOWN"

	// notHere is for checks of another kind of target. withoutRole is for checks of
	// a role when the target names none. Reports have neither.
	notHere, withoutRole Verdict = "-", "?"
)

// Finding is the result of one check.
type Finding struct {
	// Check, Cause and Question are those of the check.
	Check    string  `json:"check"`
	Cause    string  `json:"cause,omitempty"`
	Question string  `json:"question"`
	Verdict  Verdict `json:"verdict"`
	// Evidence is what the check found.
	Evidence string `json:"evidence"`
	// Remedy is a command, or empty when the check passed.
	Remedy string `json:"remedy,omitempty"`
	// Unchecked are further checks that could not run for the same reason.
	Unchecked []string `json:"unchecked,omitempty"`
}

// Report is the result of a preflight.
type Report struct {
	Cluster string `json:"cluster"`
	// Target is what was checked, such as an instance or a launch template.
	Target   string    `json:"target"`
	Findings []Finding `json:"findings"`
	// LeftOut are the checks that do not apply to the target.
	LeftOut []string `json:"leftOut,omitempty"`
	// NeedRole are the checks that need a role, when the target names none.
	NeedRole []string `json:"needRole,omitempty"`
}

// Unchecked counts the checks that are no findings of their own, because they
// could not run for the reason of another.
func (r Report) Unchecked() int {
	n := 0
	for _, f := range r.Findings {
		n += len(f.Unchecked)
	}
	return n
}

// Count counts the findings of a verdict.
func (r Report) Count(v Verdict) int {
	n := 0
	for _, f := range r.Findings {
		if f.Verdict == v {
			n++
		}
	}
	return n
}

// result is the verdict of a check with its evidence.
type result struct {
	verdict          Verdict
	evidence, remedy string
	// cause identifies the reason why a check could not run, such as a missing
	// permission. Checks with the same cause are one finding.
	cause string
}

func good(format string, args ...any) *result {
	return &result{verdict: OK, evidence: fmt.Sprintf(format, args...)}
}

func bad(remedy, format string, args ...any) *result {
	return &result{verdict: Fail, evidence: fmt.Sprintf(format, args...), remedy: remedy}
}

func maybe(remedy, format string, args ...any) *result {
	return &result{verdict: Warn, evidence: fmt.Sprintf(format, args...), remedy: remedy}
}

// unseen is the result when the check's data could not be read, or nil without an
// error. The remedy runs the preflight again.
func (f *facts) unseen(errs ...error) *result {
	err := cmp.Or(errs...)
	if err == nil {
		return nil
	}
	r := &result{verdict: Unknown, evidence: err.Error(), remedy: f.target.command(""), cause: causeOf(err)}
	switch {
	case errors.As(err, new(*awsapi.DeniedError)):
		r.remedy = "eksnode preflight --policy" // the policy that the caller needs
	case awsapi.IsNotFound(err):
		// The resource usually exists in another region or account.
		r.remedy = "aws configure list && aws sts get-caller-identity"
	}
	return r
}

// because makes a result one finding with other results of the same cause.
func (r *result) because(cause string) *result {
	r.cause = cause
	return r
}

// causeOf identifies the reason of an error. Calls for different resources fail for
// the same reason when they need the same permission or the same host.
func causeOf(err error) string {
	var denied *awsapi.DeniedError
	var unreached *awsapi.UnreachedError
	switch {
	case errors.As(err, &denied):
		return "permission " + denied.Permission
	case errors.As(err, &unreached):
		return "host " + unreached.Host
	}
	return err.Error()
}

// collected puts the results of checks together. The first check of a cause, or the
// one that fails, names the others.
type collected struct {
	findings []Finding
	first    map[string]int // index of the first finding of a cause
}

func (c *collected) add(check Check, said *result) {
	one := Finding{Check: check.ID, Cause: check.Cause, Question: check.Question,
		Verdict: said.verdict, Evidence: said.evidence, Remedy: said.remedy}
	i, known := c.first[said.cause]
	switch {
	case !known || said.cause == "":
		c.first[said.cause] = len(c.findings)
		c.findings = append(c.findings, one)
	case said.verdict == Fail && c.findings[i].Verdict == Unknown: // this check explains the others
		one.Unchecked = append([]string{c.findings[i].Check}, c.findings[i].Unchecked...)
		c.findings[i] = one
	default:
		c.findings[i].Unchecked = append(c.findings[i].Unchecked, check.ID)
	}
}

// Check is one reason why nodes do not join.
type Check struct {
	// ID names the check in reports and pages.
	ID string `yaml:"id"`
	// Cause is what diagnose calls the fault on a node that was started; empty without one.
	Cause string `yaml:"cause"`
	// Question is the check's question, in one sentence.
	Question string `yaml:"question"`
	// Why says what happens to a node when the check fails.
	Why string `yaml:"why"`
	// Needs are facts without which the check is unknown. A target without one has no such check.
	Needs []string `yaml:"needs"`
	// Node says that the check needs the settings of nodes: an instance, a launch
	// template, a node group or an EC2NodeClass.
	Node bool `yaml:"node"`

	look func(*facts) *result
}

//go:embed checks.yaml
var checksFile []byte

// texts are the tables of checks.yaml.
var texts = sync.OnceValue(func() (t struct {
	Checks     []Check           `yaml:"checks"`
	Gateways   []gateway         `yaml:"gateways"`
	Reasons    map[string]string `yaml:"reasons"`
	EntryUsers map[string]string `yaml:"entryUsers"`
}) {
	strictjson.Ours("checks.yaml", checksFile, &t)
	return t
})

// Table lists the checks in the order in which a node depends on them.
var Table = sync.OnceValue(func() []Check {
	all, checks := looks(), texts().Checks
	for i := range checks {
		checks[i].look = all[checks[i].ID]
	}
	return checks
})

// looks are the functions of the checks.
func looks() map[string]func(*facts) *result {
	return map[string]func(*facts) *result{
		"cluster":              checkCluster,
		"endpoint-access":      checkEndpointAccess,
		"kubelet-version":      checkKubelet,
		"addons":               checkAddons,
		"node-group":           checkNodeGroup,
		"node-group-template":  checkGroupTemplate,
		"node-class-selectors": checkSelectors,
		"node-class":           checkClass,
		"instance-state":       checkInstanceState,
		"image-state":          checkImageState,
		"image-owner":          ofImage(checkImageOwner),
		"image-ena":            ofImage(checkImageENA),
		"image-architecture":   ofImage(checkArchitecture),
		"instance-type":        checkTypeImage,
		"instance-type-zone":   checkTypeZone,
		"instance-quota":       checkQuota,
		"instance-plan":        checkPlan,
		"spot-role":            checkSpotRole,
		"disks":                checkDisks,
		"disk-keys":            checkKeys,
		"cluster-tag":          checkClusterTag,
		"metadata":             checkMetadata,
		"user-data":            checkUserData,
		"instance-profile":     checkProfile,
		"role-trust":           ofRole(checkTrust),
		"role-separate":        ofRole(checkRoleSeparate),
		"policy-worker":        permits((*facts).workerNeeds, "", "AmazonEKSWorkerNodePolicy"),
		"policy-cni":           checkPolicyCNI,
		"policy-registry": permits(func(f *facts) []need { return f.registryNeeds(f.simulated.value) }, "",
			clustersetup.RegistryPolicies...),
		"policy-ssm": permits((*facts).ssmNeeds, "the node still joins, but Session Manager reaches it only with the "+
			"account's default host management", clustersetup.SessionPolicies...),
		"access":     ofRole(checkAccess),
		"aws-auth":   checkAWSAuth,
		"subnet-vpc": checkSubnets,
		"subnet-tag": checkSubnetTag,
		"security-group-443": func(f *facts) *result {
			return f.path(f.nodeSide("the node"), f.planeSide(), port{"tcp", 443})
		},
		"security-group-10250": func(f *facts) *result {
			return f.path(f.planeSide(), f.nodeSide("the node"), port{"tcp", 10250})
		},
		"security-group-nodes": checkNodeToNode,
		"network-acl":          checkACL,
		"service-cidr":         checkServiceCIDR,
		"subnet-ipv6":          checkIPv6,
		"egress":               checkEgress,
		"egress-ssm":           checkEgressSSM,
		"sts-region":           checkSTS,
		"vpc-dns":              checkDNS,
		"private-zones":        checkZones,
		"dhcp-domain":          checkDomain,
	}
}

// published are the families of user data that EKS's own images read, and those built with
// its recipes, by their names.
var published = []struct {
	name     func() *regexp.Regexp
	families []string
}{
	{show.Regexp(`^amazon-eks-node-al2023-`), []string{"al2023"}},
	{show.Regexp(`^amazon-eks-(gpu-|arm64-)?node-[0-9]`), []string{"al2"}},
	{show.Regexp(`^bottlerocket-`), []string{"bottlerocket"}},
	{show.Regexp(`^Windows_Server-.*EKS_Optimized`), []string{"windows"}},
	{show.Regexp(`^ubuntu-eks/`), []string{"ubuntu", "al2"}},
}

// readBy returns the families that an image reads, or nil when they are unknown.
func readBy(i awsapi.Image) []string {
	for _, p := range published {
		if p.name().MatchString(i.Name) {
			return p.families
		}
	}
	switch _, own := i.Tags[awsapi.TagPrefix+"distro"]; {
	case i.Platform == "windows":
		return []string{"windows"}
	case own:
		return []string{"al2023", "al2", "ubuntu"}
	default:
		return nil
	}
}

// fits returns the fault when the image does not read this family of user data, or
// nil.
func (f *facts) fits(family string) *result {
	i := f.image.value
	if f.image.err != nil || f.image.absent {
		return nil
	}
	known := readBy(i)
	switch {
	case known == nil && family == "windows":
		return bad(f.userDataOf("al2023"), "the user data is for windows, but the image's platform is %q", i.Platform)
	case known == nil || slices.Contains(known, family):
		return nil
	case i.OwnerAlias == "" && i.Platform != "windows" && i.Tags[awsapi.TagPrefix+"distro"] == "":
		return maybe(f.userDataOf(known[0]), "the user data is for %s, but images named %s read %s", family, i.Name,
			strings.Join(known, ", "))
	}
	return bad(f.userDataOf(known[0]), "the user data is for %s, but %s (%s) reads %s", family, i.ID, i.Name,
		strings.Join(known, ", "))
}

func (f *facts) userDataOf(family string) string {
	return fmt.Sprintf("eksnode userdata render --family %s --cluster %s", family, f.target.Cluster)
}

// family is the best family for the image.
func (f *facts) family() string {
	if family := familyOf(f.group.value.AMIType); family != "" {
		return family
	}
	if known := readBy(f.image.value); known != nil {
		return known[0]
	}
	return "al2023"
}
