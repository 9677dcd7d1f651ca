//go:build linux

package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// eksIn has the parameters of EKS's actions.
type eksIn struct {
	Name      string `json:"name"`
	Principal string `json:"principalArn"`
	Addon     string `json:"addonName"`
}

type object = map[string]any

// kept returns the object that moto keeps under a name, or moto's error response.
func (w *World) kept(ctx context.Context, call endpoint.Call, name string) (object, any, error) {
	raw, err := w.forward(ctx, call)
	if err != nil || raw.Status != http.StatusOK {
		return nil, raw, err
	}
	var out map[string]object
	if err := json.Unmarshal(raw.Body, &out); err != nil {
		return nil, nil, fmt.Errorf("reading moto's %s: %w", name, err)
	}
	if out[name] == nil {
		return nil, nil, fmt.Errorf("moto's answer has no %s", name)
	}
	return out[name], nil, nil
}

// describeCluster returns moto's cluster with the world's replacements. moto
// keeps no network, no cluster security group and no authentication mode.
func (w *World) describeCluster(ctx context.Context, call endpoint.Call, in eksIn) (any, error) {
	cluster, failure, err := w.kept(ctx, call, "cluster")
	if cluster == nil {
		return failure, err
	}
	for key, value := range w.Clusters[in.Name] {
		inner, nested := value.(object)
		old, both := cluster[key].(object)
		switch {
		case value == nil:
			delete(cluster, key)
		case nested && both:
			maps.Copy(old, inner)
		default:
			cluster[key] = value
		}
	}
	return object{"cluster": cluster}, nil
}

func (w *World) describeAccessEntry(_ context.Context, _ endpoint.Call, in eksIn) (object, error) {
	if access, said := w.Clusters[in.Name]["accessConfig"].(object); !said || access["authenticationMode"] == "CONFIG_MAP" {
		return nil, &endpoint.Failure{
			Code: "InvalidRequestException", Status: http.StatusBadRequest,
			Message: "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation.",
		}
	}
	kind, there := w.Entries[in.Principal]
	if !there {
		return nil, &endpoint.Failure{Code: "ResourceNotFoundException", Message: "The specified principalArn could not be found.", Status: http.StatusNotFound}
	}
	return object{"accessEntry": object{
		"clusterName": in.Name, "principalArn": in.Principal, "type": kind, "kubernetesGroups": []string{"system:nodes"},
	}}, nil
}

func (w *World) listAddons(context.Context, endpoint.Call, eksIn) (object, error) {
	return object{"addons": slices.Sorted(maps.Keys(w.Addons))}, nil
}

func (w *World) describeAddon(_ context.Context, _ endpoint.Call, in eksIn) (object, error) {
	out := object{"addonName": in.Addon, "status": "ACTIVE"}
	maps.Copy(out, w.Addons[in.Addon])
	return object{"addon": out}, nil
}

type credentials struct {
	Key     string `xml:"AccessKeyId"`
	Secret  string `xml:"SecretAccessKey"`
	Token   string `xml:"SessionToken"`
	Expires string `xml:"Expiration"`
}

type assumeRoleOut struct{ Credentials credentials }

// assumeRole returns the account's own access key. moto would return a key of
// the role's account, which is empty.
func (w *World) assumeRole(_ context.Context, _ endpoint.Call, in struct {
	Role    string `query:"RoleArn"`
	Session string `query:"RoleSessionName"`
	ID      string `query:"ExternalId"`
	Seconds int    `query:"DurationSeconds"`
}) (assumeRoleOut, error) {
	return assumeRoleOut{credentials{AccessKey, "secret", "token of " + in.Role, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}}, nil
}
