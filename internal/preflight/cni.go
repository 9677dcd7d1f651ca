package preflight

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// cni is the VPC CNI's own role. Without one, the VPC CNI uses the nodes' role.
type cni struct {
	// by is pod identity or IRSA; empty without an own role.
	by string
	// arn is the role's ARN. role is nil when by is empty, or when the role belongs to
	// another account.
	arn       string
	role      *awsapi.Role
	simulated fact[[]awsapi.Decision]
	// source is the ARN of the role that assumes the role arn, or empty.
	source string
	// clients are the audiences of the cluster's OpenID Connect provider in IAM.
	clients fact[[]string]
}

const (
	podIdentity = "pod identity"
	irsa        = "IRSA"
	cniAccount  = "system:serviceaccount:kube-system:aws-node"
	audience    = "sts.amazonaws.com"
)

func (f *facts) addon(name string) *awsapi.Addon {
	i := slices.IndexFunc(f.addons.value, func(a awsapi.Addon) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return &f.addons.value[i]
}

// cniOf finds the VPC CNI's own role. EKS lists the associations that the add-on
// made, too. A pod identity association has precedence over
// the role of the add-on (github.com/aws/amazon-eks-pod-identity-webhook).
func (f *facts) cniOf(ctx context.Context, a *awsapi.AWS) fact[cni] {
	associations, err := a.PodIdentities(ctx, f.target.Cluster, "kube-system", "aws-node")
	if err != nil {
		return fact[cni]{err: err}
	}
	var c cni
	addon := f.addon("vpc-cni")
	switch {
	case len(associations) > 0:
		c = cni{by: podIdentity, arn: aws.ToString(associations[0].RoleArn)}
		if target := aws.ToString(associations[0].TargetRoleArn); target != "" {
			c.arn, c.source = target, c.arn
		}
	case addon != nil && addon.Role != "":
		c = cni{by: irsa, arn: addon.Role}
		c.clients = learn(a.OIDCClients(ctx, f.provider()))
	default:
		return fact[cni]{}
	}
	if of := awsnames.Split(c.arn).Account; of == "" || of == awsnames.Split(f.cluster.value.ARN).Account {
		role, err := a.Role(ctx, c.arn)
		if err != nil {
			return fact[cni]{value: c, err: err}
		}
		c.role = &role
	}
	return fact[cni]{value: c}
}

// issuer is the cluster's OpenID Connect issuer, as trust policies write it.
func (f *facts) issuer() string { return strings.TrimPrefix(f.cluster.value.Issuer, "https://") }

// provider is the ARN of the cluster's OpenID Connect provider in IAM.
func (f *facts) provider() string {
	return fmt.Sprintf("arn:%s:iam::%s:oidc-provider/%s", f.partition(), awsnames.Split(f.cluster.value.ARN).Account,
		f.issuer())
}

func checkPolicyCNI(f *facts) *result {
	c := f.cni.value
	switch {
	case f.cni.err != nil && c.by != "" && awsapi.IsNotFound(f.cni.err):
		return bad(f.newCNIRole(c), "the VPC CNI's role %s (%s) does not exist: %v", c.arn, c.by, f.cni.err)
	case f.cni.err != nil:
		return f.unseen(f.cni.err)
	case c.by == "":
		return f.cniOnNode()
	case c.role == nil:
		return maybe("aws sts get-caller-identity", "the VPC CNI uses the role %s (%s) of another account, which "+
			"preflight cannot read", c.arn, c.by)
	}
	trust := f.webTrust // the fault that keeps the VPC CNI from assuming its role
	if c.by == podIdentity {
		trust = f.podTrust
	}
	if not := trust(c); not != nil {
		return not
	}
	r := f.judge(f.cniGrant(c.role, c.simulated, ""))
	r.evidence += ", by " + c.by
	unknownKeys := slices.ContainsFunc(c.simulated.value, func(d awsapi.Decision) bool { return len(d.Missing) > 0 })
	if r.verdict == Warn && c.simulated.err == nil && !unknownKeys {
		r.verdict = Fail // the VPC CNI uses no other role
	}
	return r
}

// cniGrant are the VPC CNI's permissions. AWS has no managed policy for IPv6.
func (f *facts) cniGrant(role *awsapi.Role, simulated fact[[]awsapi.Decision], otherwise string) grant {
	name := "AmazonEKS_CNI_Policy"
	if f.cluster.value.IPFamily == "ipv6" {
		name = clustersetup.IPv6Policy
	}
	return grant{role, simulated, f.cniNeeds(), otherwise, []string{name}}
}

// cniOnNode checks the nodes' role, which the VPC CNI uses without a role of its own.
func (f *facts) cniOnNode() *result {
	role, not := f.role()
	if not != nil {
		return not
	}
	otherwise := "the VPC CNI's own role may have it, by an annotation of its service account"
	if f.cluster.value.IPFamily == "ipv6" {
		otherwise = "AWS has no managed policy for IPv6: create a policy for this role or for the VPC CNI's own role"
	}
	r := f.judge(f.cniGrant(role, f.simulated, otherwise))
	if f.cluster.value.IPFamily == "ipv6" && strings.HasPrefix(r.remedy, createPolicy) {
		r.remedy = fmt.Sprintf("eksnode manifests --cluster %s --role %s --only cni-role | sh", f.target.Cluster,
			role.ARN)
	}
	return r
}

// newCNIRole is the command that shows where the role is set.
func (f *facts) newCNIRole(c cni) string {
	if c.by == irsa {
		return fmt.Sprintf("aws eks describe-addon --cluster-name %s --addon-name vpc-cni --query "+
			"addon.serviceAccountRoleArn", f.target.Cluster)
	}
	return fmt.Sprintf("aws eks list-pod-identity-associations --cluster-name %s --namespace kube-system "+
		"--service-account aws-node", f.target.Cluster)
}

func (f *facts) podTrust(c cni) *result {
	agent := f.addon(podIdentityAgent)
	switch {
	case f.addons.err != nil:
		return f.unseen(f.addons.err)
	case agent == nil:
		return maybe("aws eks create-addon --cluster-name "+f.target.Cluster+" --addon-name "+podIdentityAgent,
			"the VPC CNI has the role %s by pod identity, but EKS does not manage the add-on %s, without which pods "+
				"get no credentials", c.arn, podIdentityAgent)
	case strings.HasSuffix(agent.Status, "_FAILED"):
		return bad(f.addonHealth(podIdentityAgent),
			"the VPC CNI has the role %s by pod identity, but the add-on %s is %s", c.arn, podIdentityAgent,
			agent.Status)
	case c.source != "": // the trust policy names the role that assumes this one
		return nil
	case !clustersetup.Trusts(c.role.Trust, "pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession"):
		return bad("aws iam get-role --role-name "+c.role.Name+" --query Role.AssumeRolePolicyDocument",
			"the VPC CNI's role %s does not trust pods.eks.amazonaws.com for sts:AssumeRole and sts:TagSession",
			c.role.Name)
	}
	return nil
}

func (f *facts) webTrust(c cni) *result {
	see := "aws iam get-role --role-name " + c.role.Name + " --query Role.AssumeRolePolicyDocument"
	switch fault, judged := f.webFault(c.role); {
	case f.issuer() == "":
		return maybe("aws eks describe-cluster --name "+f.target.Cluster+" --query cluster.identity",
			"EKS returned no OpenID Connect issuer, so nothing can assume the VPC CNI's role %s", c.role.Name)
	case awsapi.IsNotFound(c.clients.err):
		return bad("aws iam create-open-id-connect-provider --url "+f.cluster.value.Issuer+" --client-id-list "+
			audience, "the VPC CNI's role %s needs the cluster's OpenID Connect provider, which IAM does not have: %s",
			c.role.Name, f.provider())
	case c.clients.err != nil:
		return f.unseen(c.clients.err)
	case !slices.Contains(c.clients.value, audience):
		return bad("aws iam add-client-id-to-open-id-connect-provider --open-id-connect-provider-arn "+f.provider()+
			" --client-id "+audience,
			"the OpenID Connect provider %s lacks the audience %s", f.provider(), audience)
	case !judged:
		return maybe(see, "the VPC CNI's role %s %s", c.role.Name, fault)
	case fault != "":
		return bad(see, "the VPC CNI's role %s %s", c.role.Name, fault)
	}
	return nil
}

// webFault says why the service account of the VPC CNI cannot assume a role with
// the cluster's tokens. It is empty when the service account can. A fault that is
// not judged is a condition that may accept the tokens.
func (f *facts) webFault(role *awsapi.Role) (fault string, judged bool) {
	var p clustersetup.Document
	if err := json.Unmarshal([]byte(role.Trust), &p); err != nil {
		return fmt.Sprintf("has no readable trust policy: %v", err), true
	}
	fault, judged = "does not trust "+f.provider()+" for sts:AssumeRoleWithWebIdentity", true
	for _, s := range p.Statement {
		who := s.Principal.Federated
		if s.Effect != "Allow" || !slices.Contains(who, f.provider()) && !slices.Contains(who, "*") ||
			!s.About("sts:AssumeRoleWithWebIdentity") {
			continue
		}
		sub, subJudged := refusal(s, f.issuer()+":sub", cniAccount)
		aud, audJudged := refusal(s, f.issuer()+":aud", audience)
		switch {
		case sub == "" && aud == "":
			return "", true
		case sub != "" && subJudged:
			fault = sub
		case aud != "" && audJudged:
			fault = aud
		default:
			return cmp.Or(sub, aud), false
		}
	}
	return fault, judged
}

// refusal says which condition of a statement does not accept a value of a key, or
// is empty. Operators other than those of EKS's documentation are not judged.
func refusal(s clustersetup.Statement, key, value string) (fault string, judged bool) {
	judged = true
	for _, operator := range slices.Sorted(maps.Keys(s.Condition)) {
		kind := strings.TrimSuffix(operator[strings.Index(operator, ":")+1:], "IfExists")
		for name, values := range s.Condition[operator] {
			texts := show.Each(values, func(v any) string { return fmt.Sprint(v) })
			switch {
			case !strings.EqualFold(name, key),
				kind == "StringEquals" && slices.Contains(texts, value),
				kind == "StringLike" && clustersetup.AnyLike(texts, value, false):
			case kind == "StringEquals" || kind == "StringLike":
				return fmt.Sprintf("demands %s to be %s, but the VPC CNI has %s", key, strings.Join(texts, " or "),
					value), true
			default:
				fault, judged = fmt.Sprintf("has the condition %s for %s, which preflight cannot judge", operator, key),
					false
			}
		}
	}
	return fault, judged
}
