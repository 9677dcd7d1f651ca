//go:build linux

package aws

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// Permit lets callers make only the calls that an IAM policy allows: on the resources
// of the call, with the tags that the call makes, and with the calls that EC2 and EBS
// make to KMS. Calls of Do are not limited.
func (w *World) Permit(policy string) {
	w.t.Helper()
	statements, err := policyOf(policy)
	require.NoError(w.t, err)
	w.faults.Lock()
	defer w.faults.Unlock()
	w.permitted = statements
}

// allowed says whether the policy allows an action. Without a policy, every action is
// allowed.
func (w *World) allowed(action, resource string, keys map[string][]string) bool {
	w.faults.Lock()
	defer w.faults.Unlock()
	if w.permitted == nil {
		return true
	}
	decision, _, err := decide(w.permitted, asked{action, resource, keys})
	return err == nil && decision == "allowed"
}

// needed is a permission that a call needs.
type needed struct {
	action, resource string
	keys             map[string][]string
}

// permit returns the error of a call that the policy does not allow.
func (w *World) permit(full string, call endpoint.Call) error {
	for _, n := range needs(full, call) {
		if w.allowed(n.action, n.resource, n.keys) {
			continue
		}
		code, said := "AccessDeniedException", "User: arn:aws:iam::"+Account+":user/double is not authorized to perform: "+n.action+" on resource: "+n.resource+
			" because no identity-based policy allows the "+n.action+" action"
		if call.Service == "ec2" {
			code, said = "UnauthorizedOperation", "You are not authorized to perform this operation. "+said
		}
		return &endpoint.Failure{Code: code, Message: said, Status: http.StatusForbidden}
	}
	return nil
}

// needs lists the permissions for a call, by the tables of
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html.
func needs(full string, call endpoint.Call) []needed {
	on := func(service, account, resource string) needed {
		return needed{action: full, resource: "arn:aws:" + service + ":" + call.Region + ":" + account + ":" + resource}
	}
	var named struct {
		Name  string
		KeyID string `json:"KeyId"`
	}
	switch {
	case full == "sts:GetCallerIdentity": // needs no permission
		return nil
	case call.Service == "ec2":
		return ofEC2(full, call, on)
	case full == "ssm:GetParameter" && json.Unmarshal([]byte(call.Body), &named) == nil:
		name, _, _ := strings.Cut(named.Name, ":") // a version or a label
		return []needed{on("ssm", Account, "parameter/"+strings.TrimPrefix(name, "/"))}
	case full == "kms:DescribeKey" && json.Unmarshal([]byte(call.Body), &named) == nil:
		return []needed{on("kms", Account, "key/"+named.KeyID[strings.LastIndex(named.KeyID, "/")+1:])}
	}
	return []needed{{action: full, resource: "*"}}
}

// ofEC2 lists the permissions for a call of EC2. Descriptions are for all resources.
func ofEC2(full string, call endpoint.Call, on func(service, account, resource string) needed) []needed {
	form, err := url.ParseQuery(call.Body)
	if err != nil || looks.MatchString(call.Action) {
		return []needed{{action: full, resource: "*"}}
	}
	var all []needed
	if call.Action == "RegisterImage" || call.Action == "CopyImage" {
		all = append(all, on("ec2", "", "image/*"), on("ec2", "", "snapshot/*"))
	}
	for name, values := range form {
		part := name[strings.LastIndex(name, ".")+1:]
		switch {
		case part == "ImageId" || part == "SnapshotId":
			all = append(all, on("ec2", "", map[string]string{"ImageId": "image/", "SnapshotId": "snapshot/"}[part]+values[0]))
		case part == "ResourceType" && strings.HasPrefix(name, "TagSpecification."):
			tags := on("ec2", "", values[0]+"/*")
			tags.action = "ec2:CreateTags"
			all = append(all, tags)
		}
	}
	if form.Get("Encrypted") == "true" {
		key := form.Get("KmsKeyId")
		for _, action := range ebsdirect.WritingActions() {
			one := on("kms", Account, "key/"+key[strings.LastIndex(key, "/")+1:])
			one.action, one.keys = action, map[string][]string{"kms:viaservice": {"ec2." + call.Region + ".amazonaws.com"}, "kms:grantisforawsresource": {"true"}}
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return []needed{{action: full, resource: "*"}}
	}
	return all
}
