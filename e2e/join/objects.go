package join

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Node is a node as the API server knows it, as far as it matters here.
type Node struct {
	Metadata struct {
		Name, ResourceVersion string
		Labels                map[string]string
	}
	Spec struct {
		ProviderID string
		Taints     []Taint
	}
	Status struct {
		Conditions []Condition
		Capacity   map[string]string
		NodeInfo   struct{ MachineID, BootID, KubeletVersion, ContainerRuntimeVersion, OSImage string }
	}
}

// Condition is one of a node's or a pod's.
type Condition struct {
	Type, Status, Reason, Message string
	// LastHeartbeatTime is when the kubelet last said so; only nodes have it.
	LastHeartbeatTime time.Time
}

// Ready says why a node is not ready, or nothing.
func (n Node) Ready() string { return n.ReadySince(time.Time{}) }

// ReadySince says why a node has not reported since then, to the second, that it
// is ready, or nothing.
func (n Node) ReadySince(since time.Time) string {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" {
			if c.LastHeartbeatTime.Before(since.Truncate(time.Second)) {
				return "its last report is of " + c.LastHeartbeatTime.String()
			}
			if c.Status == "True" {
				return ""
			}
			return strings.TrimSpace(c.Reason + ": " + c.Message)
		}
	}
	return "it has not reported yet"
}

// Nodes lists the cluster's nodes.
func (c *Cluster) Nodes(ctx context.Context) ([]Node, error) {
	var list struct{ Items []Node }
	err := c.Call(ctx, http.MethodGet, "/api/v1/nodes", nil, &list)
	return list.Items, err
}

// Node finds a node by its name.
func (c *Cluster) Node(ctx context.Context, name string) (Node, error) {
	var node Node
	err := c.Call(ctx, http.MethodGet, "/api/v1/nodes/"+name, nil, &node)
	return node, err
}

// IsNotFound says that the API server knows no such object.
func IsNotFound(err error) bool { return hasCode(err, http.StatusNotFound) }

// IsConflict says that somebody else has changed the object meanwhile.
func IsConflict(err error) bool { return hasCode(err, http.StatusConflict) }

func hasCode(err error, code int) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Code == code
}

// Pod is a pod as the API server knows it, as far as it matters here.
type Pod struct {
	Metadata struct{ Name, UID string }
	Spec     struct{ NodeName string }
	Status   struct {
		Phase, Reason, Message, PodIP string
		Conditions                    []Condition
		ContainerStatuses             []struct {
			Name         string
			Ready        bool
			RestartCount int
			State        struct {
				Waiting *struct{ Reason, Message string }
			}
		}
	}
}

// Running says why a pod does not run, or nothing.
func (p Pod) Running() string {
	if p.Status.Phase == "Running" {
		for _, c := range p.Status.ContainerStatuses {
			if !c.Ready {
				return fmt.Sprintf("its container %s is not ready", c.Name)
			}
		}
		return ""
	}
	why := strings.TrimSpace(p.Status.Phase + " " + p.Status.Reason + " " + p.Status.Message)
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			why += fmt.Sprintf("; %s: %s %s", c.Name, w.Reason, w.Message)
		}
	}
	return why
}

// Pod finds a pod of the namespace default.
func (c *Cluster) Pod(ctx context.Context, name string) (Pod, error) {
	var pod Pod
	err := c.Call(ctx, http.MethodGet, "/api/v1/namespaces/default/pods/"+name, nil, &pod)
	return pod, err
}

// Events are what was reported about an object of the namespace default, one a
// line.
func (c *Cluster) Events(ctx context.Context, name string) (string, error) {
	var list struct {
		Items []struct{ Type, Reason, Message string }
	}
	err := c.Call(ctx, http.MethodGet, "/api/v1/events?fieldSelector=involvedObject.name="+name, nil, &list)
	var lines []string
	for _, e := range list.Items {
		lines = append(lines, e.Type+" "+e.Reason+": "+e.Message)
	}
	return strings.Join(lines, "\n"), err
}
