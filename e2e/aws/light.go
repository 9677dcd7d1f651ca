//go:build linux

package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// Light returns an account without moto, for thousands of short runs: it has images,
// snapshots, parameters and two regions, and the lists of all else are empty. Folder is
// for the snapshots. Any number of light worlds may exist at a time.
func Light(t testing.TB, folder string) *World {
	w := blank(context.Background(), t)
	w.light = map[string]string{}
	w.mayRefuse = true // the caller looks at Refusals
	w.ebs = ebsdirect.New(folder)
	w.ebs.Quotas, w.ebs.Forget = ebsdirect.Quotas{}, true
	w.joinEBS()
	return w
}

// LightRegions are the regions of a light world.
var LightRegions = []string{Region, "us-east-1"}

// caller is the answer of GetCallerIdentity. An empty one is an empty list of any kind.
type caller struct {
	Account string `xml:",omitempty"`
	Arn     string `xml:",omitempty"`
	UserID  string `xml:"UserId,omitempty"`
}

// lightly carries out what moto does in other worlds.
func (w *World) lightly(call endpoint.Call) (*endpoint.Raw, error) {
	protocol := endpoint.Protocol(endpoint.EC2{Version: versions["ec2"]})
	var answer any = caller{}
	switch full := call.Service + ":" + call.Action; {
	case full == "ec2:DescribeRegions":
		var out regionsOut
		for _, name := range LightRegions {
			out.Regions = append(out.Regions, region{Name: name, Status: "opt-in-not-required"})
		}
		answer = out
	case full == "sts:GetCallerIdentity":
		protocol = endpoint.Query{Version: versions["sts"]}
		answer = caller{Account, "arn:aws:iam::" + Account + ":user/double", "AIDATEST"}
	case call.Service == "ssm":
		return w.lightParameter(call)
	case call.Service == "autoscaling":
		protocol = endpoint.Query{Version: versions["autoscaling"]}
		fallthrough
	case call.Service == "ec2" && looks.MatchString(call.Action):
	case call.Service == "eks" && looks.MatchString(call.Action):
		protocol = endpoint.JSON{}
	default:
		return nil, endpoint.Refuse("%s in a light world", full)
	}
	return &endpoint.Raw{Status: http.StatusOK, Header: http.Header{}, Body: endpoint.Written(protocol, call, answer)}, nil
}

// LightParameter reads a parameter of a light world.
func (w *World) LightParameter(region, name string) string { return w.light[region+" "+name] }

// lightParameter carries out a call about parameters.
func (w *World) lightParameter(call endpoint.Call) (*endpoint.Raw, error) {
	var in struct {
		Name, Value string
		Names       []string
	}
	if err := json.Unmarshal([]byte(call.Body), &in); err != nil {
		return nil, endpoint.Refuse("the body: %v", err)
	}
	key := call.Region + " " + in.Name
	answer := any(object{"Parameters": []any{}})
	switch call.Action {
	case "PutParameter":
		w.light[key] = in.Value
		answer = object{"Version": 1, "Tier": "Standard"}
	case "GetParameter":
		if w.light[key] == "" {
			return nil, endpoint.Fail("ParameterNotFound", "the parameter does not exist")
		}
		answer = object{"Parameter": object{"Name": in.Name, "Type": "String", "DataType": "aws:ec2:image", "Value": w.light[key]}}
	}
	return &endpoint.Raw{Status: http.StatusOK, Header: http.Header{}, Body: endpoint.Written(endpoint.JSON{}, call, answer)}, nil
}

// Client calls the world and its EBS without a network, one call after the other. After
// is called after each call, unless it is nil.
func (w *World) Client(after func()) *http.Client {
	return &http.Client{Transport: &direct{world: w, after: after}}
}

type direct struct {
	world *World
	after func()
	mutex sync.Mutex
}

// RoundTrip implements http.RoundTripper.
func (d *direct) RoundTrip(out *http.Request) (answer *http.Response, err error) {
	if err := out.Context().Err(); err != nil {
		return nil, err
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	defer func() {
		if broken := recover(); broken == http.ErrAbortHandler {
			answer, err = nil, fmt.Errorf("the connection broke: %w", io.ErrUnexpectedEOF)
		} else if broken != nil {
			panic(broken)
		}
		if d.after != nil {
			d.after()
		}
	}()
	in := out.Clone(out.Context())
	in.Host, in.RequestURI = out.URL.Host, out.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	serve := http.Handler(d.world)
	if parts := strings.Split(in.Header.Get("Authorization"), "/"); len(parts) > 3 && parts[3] == "ebs" {
		serve = d.world.ebs
	}
	recorder := httptest.NewRecorder()
	serve.ServeHTTP(recorder, in)
	answer = recorder.Result()
	answer.Request = out
	return answer, nil
}

// EBS returns the EBS of a light world.
func (w *World) EBS() *ebsdirect.Double { return w.ebs }

// AllSnapshots returns the snapshots that are really there, whatever calls see.
func (w *World) AllSnapshots() []*Snapshot {
	w.takeOver()
	return w.Snapshots
}

// Snapshot finds a snapshot by its ID. It returns nil if there is none.
func (w *World) Snapshot(id string) *Snapshot {
	for _, s := range w.AllSnapshots() {
		if s.ID == id {
			return s
		}
	}
	return nil
}

// True is the state of a snapshot, whatever calls see.
func (w *World) True(s *Snapshot) string {
	if real := w.ebs.Find(s.ID); real != nil {
		return real.State
	}
	return s.State
}

// PutLight writes a parameter of a light world.
func (w *World) PutLight(region, name, value string) { w.light[region+" "+name] = value }
