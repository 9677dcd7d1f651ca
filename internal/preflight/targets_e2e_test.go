//go:build e2e && linux

package preflight

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
)

const (
	cniRole   = "arn:aws:iam::" + aws.Account + ":role/cni"
	podsTrust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},"Action":["sts:AssumeRole","sts:TagSession"]}]}`
)

var nodeGroupTarget = Target{Cluster: "my-cluster", NodeGroup: "workers"}

// byPodIdentity gives the VPC CNI its own role by pod identity.
func byPodIdentity(w *aws.World) {
	w.Do("iam:CreateRole", "RoleName", "cni", "AssumeRolePolicyDocument", podsTrust)
	w.Do("iam:AttachRolePolicy", "RoleName", "cni", "PolicyArn", "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy")
	w.Associations = []aws.Association{{ID: "a-1", Namespace: "kube-system", Account: "aws-node", Role: cniRole}}
	w.Addons["eks-pod-identity-agent"] = map[string]any{"addonVersion": "v1.3.8-eksbuild.2"}
}

// byIRSA gives the VPC CNI its own role by the cluster's OpenID Connect provider.
func byIRSA(t *testing.T, w *aws.World, subject string) {
	t.Helper()
	const issuer = "oidc.eks.eu-west-1.amazonaws.com/id/ABC"
	w.Clusters["my-cluster"]["identity"] = map[string]any{"oidc": map[string]any{"issuer": "https://" + issuer}}
	w.Do("iam:CreateOpenIDConnectProvider", "Url", "https://"+issuer, "ClientIDList.member.1", "sts.amazonaws.com", "ThumbprintList.member.1", strings.Repeat("a", 40))
	w.Do("iam:CreateRole", "RoleName", "cni", "AssumeRolePolicyDocument", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::`+aws.Account+`:oidc-provider/`+issuer+
		`"},"Action":"sts:AssumeRoleWithWebIdentity","Condition":{"StringEquals":{"`+issuer+`:sub":"`+subject+`","`+issuer+`:aud":"sts.amazonaws.com"}}}]}`)
	w.Do("iam:AttachRolePolicy", "RoleName", "cni", "PolicyArn", "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy")
	w.Addons["vpc-cni"]["serviceAccountRoleArn"] = cniRole
}

// needing changes the world so that a preflight makes a call, and returns a target
// that does.
func needing(w *aws.World, action string, target Target) Target {
	switch action {
	case "eks:DescribeNodegroup", "iam:GetRole":
		w.NodeGroup("workers", map[string]any{"amiType": "AL2023_x86_64_STANDARD", "version": "1.34", "releaseVersion": "1.34.1-20251002"})
		return nodeGroupTarget
	case "eks:DescribePodIdentityAssociation":
		byPodIdentity(w)
	case "iam:GetOpenIDConnectProvider":
		w.Associations = nil
		w.Addons["vpc-cni"]["serviceAccountRoleArn"] = cniRole
	}
	return target
}

func finding(t *testing.T, r Report, check string) Finding {
	t.Helper()
	i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Check == check })
	require.GreaterOrEqual(t, i, 0, "%s in %+v", check, r)
	return r.Findings[i]
}
