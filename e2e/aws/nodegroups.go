//go:build linux

package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// Association is a pod identity association. moto 5.1 has none: this is our own
// supplement.
type Association struct {
	ID, Namespace, Account string
	// Role and Target are ARNs. Target may be empty.
	Role, Target string
}

type groupIn struct {
	Name  string `json:"name"`
	Group string `json:"nodegroupName"`
}

// describeNodegroup returns moto's node group with the world's replacements. moto
// always adds an instance type, and no health issues.
func (w *World) describeNodegroup(ctx context.Context, call endpoint.Call, in groupIn) (any, error) {
	group, failure, err := w.kept(ctx, call, "nodegroup")
	if group == nil {
		return failure, err
	}
	maps.Copy(group, w.NodeGroups[in.Group])
	return object{"nodegroup": group}, nil
}

// NodeGroup makes a managed node group of the sample's cluster, with EKS's JSON.
// EKS lets the node's role in.
func (w *World) NodeGroup(name string, fields map[string]any) {
	w.t.Helper()
	body := object{"nodegroupName": name, "nodeRole": NodeRole, "subnets": []string{"subnet-1", "subnet-2"}, "scalingConfig": object{"minSize": 1, "maxSize": 3, "desiredSize": 2}}
	maps.Copy(body, fields)
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Do("eks:POST /clusters/my-cluster/node-groups", string(text))
	if w.NodeGroups == nil {
		w.NodeGroups = map[string]map[string]any{}
	}
	w.NodeGroups[name] = fields
	if _, there := fields["instanceTypes"]; !there && fields["launchTemplate"] != nil {
		fields["instanceTypes"] = []string{}
	}
}

type associationsIn struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Account   string `json:"serviceAccount"`
	ID        string `json:"associationId"`
}

// Associate gives the pods of a service account a role.
func (w *World) Associate(namespace, account, role string) Association {
	one := Association{ID: fmt.Sprintf("a-%d", len(w.Associations)+1), Namespace: namespace, Account: account, Role: role}
	w.Associations = slices.DeleteFunc(w.Associations, func(a Association) bool { return a.Namespace == namespace && a.Account == account })
	w.Associations = append(w.Associations, one)
	return one
}

// AssociatedRole returns the role of a service account's pods, or an empty text.
func (w *World) AssociatedRole(namespace, account string) string {
	for _, a := range w.Associations {
		if a.Namespace == namespace && a.Account == account {
			return a.Role
		}
	}
	return ""
}

func (a Association) object(cluster string) object {
	out := object{"clusterName": cluster, "namespace": a.Namespace, "serviceAccount": a.Account, "associationId": a.ID}
	return out
}

func (w *World) listAssociations(_ context.Context, _ endpoint.Call, in associationsIn) (object, error) {
	list := []object{}
	for _, a := range w.Associations {
		if (in.Namespace == "" || a.Namespace == in.Namespace) && (in.Account == "" || a.Account == in.Account) {
			list = append(list, a.object(in.Name))
		}
	}
	return object{"associations": list}, nil
}

func (w *World) describeAssociation(_ context.Context, _ endpoint.Call, in associationsIn) (object, error) {
	for _, a := range w.Associations {
		if a.ID == in.ID {
			out := a.object(in.Name)
			out["roleArn"] = a.Role
			if a.Target != "" {
				out["targetRoleArn"] = a.Target
			}
			return object{"association": out}, nil
		}
	}
	return nil, &endpoint.Failure{Code: "ResourceNotFoundException", Message: "No association " + strings.TrimSpace(in.ID), Status: http.StatusNotFound}
}
