//go:build linux

package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

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

// EBS returns the EBS of an account of its own, where AWS answers promptly. It serves both the EBS
// direct APIs and EC2's calls about snapshots.
func EBS(t testing.TB, folder string) *ebsdirect.Double {
	w := Light(t, folder).Prompt("the test says what happens")
	w.ebs.Quotas, w.ebs.Forget = ebsdirect.Default(), false
	return w.ebs
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
	var answer any = caller{}
	switch full := call.Service + ":" + call.Action; {
	case full == "ec2:DescribeRegions":
		var out regionsOut
		for _, name := range LightRegions {
			out.Regions = append(out.Regions, region{Name: name, Status: "opt-in-not-required"})
		}
		answer = out
	case full == "sts:GetCallerIdentity":
		answer = caller{Account, "arn:aws:iam::" + Account + ":user/double", "AIDATEST"}
	case call.Service == "ssm":
		return w.lightParameter(call)
	case call.Service == "autoscaling":
	case (call.Service == "ec2" || call.Service == "eks") && looks.MatchString(call.Action):
	default:
		return nil, endpoint.Refuse("%s in a light world", full)
	}
	text := endpoint.Written(protocol(call.Service), call, answer)
	return &endpoint.Raw{Status: http.StatusOK, Header: http.Header{}, Body: text}, nil
}

// LightParameter reads a parameter of a light world.
func (w *World) LightParameter(region, name string) string { return w.light[region+" "+name] }

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
	if _, _, service, _ := endpoint.Scope(in); service == "ebs" {
		serve = d.world.ebs
	}
	recorder := httptest.NewRecorder()
	serve.ServeHTTP(recorder, in)
	if err := out.Context().Err(); err != nil {
		return nil, err // as net/http: who stops while a call runs never learns its answer
	}
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

// Inventory lists what exists in regions, without other accounts' images and
// without networks. These are the objects that a user would pay for or have to
// clean up. A line is a kind, an identifier and, if set, a name.
func (w *World) Inventory(regions ...string) []string {
	w.t.Helper()
	var lines []string
	for _, i := range w.Images {
		if i.Owner == Account && slices.Contains(regions, i.Region) {
			lines = append(lines, "image "+i.ID+" "+i.Name)
		}
	}
	for _, s := range w.Snapshots {
		if s.Owner == Account && slices.Contains(regions, s.Region) {
			lines = append(lines, "snapshot "+s.ID)
		}
	}
	for _, region := range regions {
		for _, list := range []struct{ kind, action, pattern, not string }{
			{"instance", "DescribeInstances", `(?s)<instanceId>(i-\w+)</instanceId>\s*<imageId>.*?<name>(\S+)</name>`, "terminated"},
			{"volume", "DescribeVolumes", `<volumeId>(vol-\w+)</volumeId>\s*<size>()`, "-"},
			{"key pair", "DescribeKeyPairs", `<keyPairId>(\S+)</keyPairId>()`, "-"},
			{"security group", "DescribeSecurityGroups", `<groupId>(sg-\w+)</groupId>\s*<groupName>([^<]+)</groupName>\s*<groupDescription>`, "default"},
		} {
			for _, found := range regexp.MustCompile(list.pattern).FindAllStringSubmatch(string(w.DoIn(region, "ec2:"+list.action)), -1) {
				if found[2] != list.not {
					lines = append(lines, strings.TrimSpace(list.kind+" "+found[1]+" "+found[2]))
				}
			}
		}
	}
	return lines
}

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
