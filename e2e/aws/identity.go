package aws

import (
	"context"
	"net/url"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/ssm"
)

// Profile is an instance profile with its role.
type Profile struct {
	Name, ARN string
	// Role is the role's name; empty where the profile has none.
	Role, RoleARN, Path string
	// Trust is a policy in JSON.
	Trust string
}

func (w *World) iam() endpoint.Service {
	return endpoint.Service{Name: "iam", Protocol: endpoint.Query{Version: "2010-05-08"}, Actions: map[string]endpoint.Action{
		"GetInstanceProfile":       endpoint.Handle(w.getInstanceProfile),
		"ListAttachedRolePolicies": endpoint.Handle(w.listAttachedRolePolicies),
	}}
}

type role struct {
	Name  string `xml:"RoleName"`
	ARN   string `xml:"Arn"`
	Path  string
	ID    string `xml:"RoleId"`
	Made  string `xml:"CreateDate"`
	Trust string `xml:"AssumeRolePolicyDocument"`
}

type getInstanceProfileOut struct {
	Profile struct {
		Name  string `xml:"InstanceProfileName"`
		ARN   string `xml:"Arn"`
		ID    string `xml:"InstanceProfileId"`
		Path  string
		Made  string `xml:"CreateDate"`
		Roles []role `xml:"Roles>member"`
	} `xml:"InstanceProfile"`
}

const made = "2026-01-02T03:04:05Z"

func (w *World) getInstanceProfile(_ context.Context, _ endpoint.Call, in struct {
	Name string `query:"InstanceProfileName"`
}) (getInstanceProfileOut, error) {
	var out getInstanceProfileOut
	for _, p := range w.Profiles {
		if p.Name != in.Name {
			continue
		}
		out.Profile.Name, out.Profile.ARN, out.Profile.ID, out.Profile.Path, out.Profile.Made = p.Name, p.ARN, "AIPA1", "/", made
		if p.Role != "" {
			out.Profile.Roles = []role{{p.Role, p.RoleARN, p.Path, "AROA1", made, url.QueryEscape(p.Trust)}}
		}
		return out, nil
	}
	return out, &endpoint.Failure{Code: "NoSuchEntity", Message: "Instance Profile " + in.Name + " cannot be found.", Status: 404}
}

type policy struct {
	Name string `xml:"PolicyName"`
	ARN  string `xml:"PolicyArn"`
}

type listAttachedRolePoliciesOut struct {
	Policies  []policy `xml:"AttachedPolicies>member"`
	Truncated bool     `xml:"IsTruncated"`
	Marker    string   `xml:"Marker,omitempty"`
}

func (w *World) listAttachedRolePolicies(_ context.Context, _ endpoint.Call, in struct {
	Role   string `query:"RoleName"`
	Marker string `query:"Marker"`
}) (listAttachedRolePoliciesOut, error) {
	var out listAttachedRolePoliciesOut
	var names []string
	names, out.Marker = page(w, w.Policies[in.Role], in.Marker)
	out.Truncated = out.Marker != ""
	for _, name := range names {
		out.Policies = append(out.Policies, policy{name, "arn:aws:iam::aws:policy/" + name})
	}
	return out, nil
}

type assumeRoleIn struct {
	Role    string `query:"RoleArn"`
	Session string `query:"RoleSessionName"`
	ID      string `query:"ExternalId"`
	Seconds int    `query:"DurationSeconds"`
}

type assumeRoleOut struct {
	Credentials struct {
		Key     string `xml:"AccessKeyId"`
		Secret  string `xml:"SecretAccessKey"`
		Token   string `xml:"SessionToken"`
		Expires string `xml:"Expiration"`
	}
}

func (w *World) assumeRole(_ context.Context, _ endpoint.Call, in assumeRoleIn) (assumeRoleOut, error) {
	var out assumeRoleOut
	out.Credentials.Key, out.Credentials.Secret, out.Credentials.Token = AccessKey, "secret", "token of "+in.Role
	out.Credentials.Expires = time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	return out, nil
}

type putParameterIn struct {
	Name, Value, Type, DataType, Description, Tier string
	Overwrite                                      bool
}

func (w *World) ssm() endpoint.Service {
	if w.Parameters == nil {
		w.Parameters = map[string]string{}
	}
	service := ssm.Service(w.Parameters)
	get := service.Actions["GetParameter"]
	service.Actions["GetParameter"] = func(ctx context.Context, p endpoint.Protocol, call endpoint.Call) (any, error) {
		if w.pending != nil && w.SSMDelay == 0 {
			w.Parameters[w.pending.Name] = w.pending.Value
			w.pending = nil
		}
		w.SSMDelay = max(0, w.SSMDelay-1)
		return get(ctx, p, call)
	}
	service.Actions["DescribeParameters"] = endpoint.Handle(w.describeParameters)
	service.Actions["GetParameters"] = endpoint.Handle(w.getParameters)
	service.Actions["GetParameterHistory"] = endpoint.Handle(w.getParameterHistory)
	service.Actions["PutParameter"] = endpoint.Handle(func(_ context.Context, _ endpoint.Call, in putParameterIn) (object, error) {
		if _, there := w.Parameters[in.Name]; there && !in.Overwrite {
			return nil, endpoint.Fail("ParameterAlreadyExists", "The parameter already exists.")
		}
		// The ids of images are looked at before they can be read.
		w.pending = &in
		if w.DataTypes == nil {
			w.DataTypes = map[string]string{}
		}
		w.DataTypes[in.Name] = in.DataType
		return object{"Version": 2, "Tier": "Standard"}, nil
	})
	return service
}
