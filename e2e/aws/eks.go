package aws

import (
	"context"
	"maps"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// EKS answers for EKS alone, with clusters by name as it writes them in JSON.
func EKS(clusters map[string]map[string]any) endpoint.Service {
	return (&World{Clusters: clusters}).eks()
}

func (w *World) eks() endpoint.Service {
	return endpoint.Service{
		Name: "eks",
		Protocol: endpoint.REST{Routes: map[string]string{
			"GET /clusters":                                      "ListClusters",
			"GET /clusters/{name}/node-groups":                   "ListNodegroups",
			"GET /clusters/{name}/node-groups/{nodegroupName}":   "DescribeNodegroup",
			"GET /clusters/{name}":                               "DescribeCluster",
			"GET /clusters/{name}/access-entries/{principalArn}": "DescribeAccessEntry",
			"GET /clusters/{name}/addons":                        "ListAddons",
			"GET /clusters/{name}/addons/{addonName}":            "DescribeAddon",
		}},
		Actions: map[string]endpoint.Action{
			"ListClusters":        endpoint.Handle(w.listClusters),
			"ListNodegroups":      endpoint.Handle(w.listNodegroups),
			"DescribeNodegroup":   endpoint.Handle(w.describeNodegroup),
			"DescribeCluster":     endpoint.Handle(w.describeCluster),
			"DescribeAccessEntry": endpoint.Handle(w.describeAccessEntry),
			"ListAddons":          endpoint.Handle(w.listAddons),
			"DescribeAddon":       endpoint.Handle(w.describeAddon),
		},
	}
}

type eksIn struct {
	Name      string `json:"name"`
	Principal string `json:"principalArn"`
	Addon     string `json:"addonName"`
	Group     string `json:"nodegroupName"`
	Include   string `json:"include"`
	Token     string `json:"nextToken"`
}

type object = map[string]any

func (w *World) describeCluster(_ context.Context, _ endpoint.Call, in eksIn) (object, error) {
	cluster, known := w.Clusters[in.Name]
	if !known {
		return nil, &endpoint.Failure{Code: "ResourceNotFoundException", Message: "No cluster found for name: " + in.Name + ".", Status: 404}
	}
	return object{"cluster": cluster}, nil
}

func (w *World) describeAccessEntry(_ context.Context, _ endpoint.Call, in eksIn) (object, error) {
	if access, said := w.Clusters[in.Name]["accessConfig"].(object); !said || access["authenticationMode"] == "CONFIG_MAP" {
		return nil, &endpoint.Failure{
			Code: "InvalidRequestException", Status: 400,
			Message: "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation.",
		}
	}
	kind, known := w.Entries[in.Name][in.Principal]
	if !known {
		return nil, &endpoint.Failure{Code: "ResourceNotFoundException", Message: "The specified principalArn could not be found.", Status: 404}
	}
	return object{"accessEntry": object{
		"clusterName": in.Name, "principalArn": in.Principal, "type": kind, "kubernetesGroups": []string{"system:nodes"},
	}}, nil
}

func (w *World) listAddons(_ context.Context, _ endpoint.Call, in eksIn) (object, error) {
	names, next := page(w, slices.Sorted(maps.Keys(w.Addons[in.Name])), in.Token)
	return listed("addons", names, next), nil
}

func (w *World) describeAddon(_ context.Context, _ endpoint.Call, in eksIn) (object, error) {
	status := w.AddonStatus[in.Addon]
	if status == "" {
		status = "ACTIVE"
	}
	out := object{"addonName": in.Addon, "addonVersion": w.Addons[in.Name][in.Addon], "status": status}
	if w.AddonRole != "" {
		out["serviceAccountRoleArn"] = w.AddonRole
	}
	if w.AddonValues != "" {
		out["configurationValues"] = w.AddonValues
	}
	return object{"addon": out}, nil
}
