// Package aws is test code: doubles of EC2, ECR, EKS, IAM, SSM and STS that
// answer from plain data, for what looks at AWS and changes next to nothing. They
// speak the real protocols (package endpoint), so that the real SDK is what is tested.
// Package ec2 has the other kind of double, whose instances are machines.
//
// A World is filled by the test, which may change it between calls, slow it
// down, deny calls and break answers.
package aws

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/sts"
)

const (
	// AccessKey is the only one the doubles know.
	AccessKey = "AKIATEST"
	// Account is whose calls they answer.
	Account = "123456789012"
	// Region is the one there is.
	Region = "eu-west-1"
)

// World is what AWS would know.
type World struct {
	// PageSize is how many of a list come at once.
	PageSize int

	// Clusters are EKS's by name, as it writes them in JSON.
	Clusters map[string]map[string]any
	// Entries are access entries' types by cluster and ARN.
	Entries map[string]map[string]string
	// Addons are versions by cluster and name; AddonStatus is ACTIVE where it is
	// not said.
	Addons      map[string]map[string]string
	AddonStatus map[string]string
	// AddonRole and AddonValues are what all add-ons were set to.
	AddonRole, AddonValues string

	Images     []Image
	Instances  []Instance
	Templates  []Template
	Subnets    []Subnet
	Routes     []RouteTable
	ACLs       []ACL
	Groups     []SecurityGroup
	VPCs       []VPC
	DHCP       []DHCP
	Endpoints  []Endpoint
	Types      map[string][]string // architectures by instance type
	Profiles   []Profile
	Policies   map[string][]string // by role
	Parameters map[string]string
	// SSMDelay is how often a parameter that was put is still read as it was.
	SSMDelay int
	// Types of parameters that were put, by name.
	DataTypes map[string]string
	// Secrets are the parameters of the type SecureString.
	Secrets map[string]bool
	// History are the versions of parameters, by name.
	History map[string][]Version
	// Snapshots are those that exist.
	Snapshots []string
	// Shares are whom images and snapshots are shared with, by id.
	Shares map[string][]Share
	// NodeGroups are the launch templates of managed node groups, by cluster and
	// name; empty for those without one of their own.
	NodeGroups     map[string]map[string]Specification
	ScalingGroups  []ScalingGroup
	Configurations []Configuration
	Fleets         []Fleet
	SpotFleets     []SpotFleet
	SpotRequests   []SpotRequest
	// RegistryPassword is what ECR lets its registries' user in with; empty for
	// nobody.
	RegistryPassword string

	pending  *putParameterIn
	mutex    sync.Mutex
	faults   map[string][]*endpoint.Failure
	before   map[string]func()
	denied   []string
	broken   []string
	endpoint *endpoint.Endpoint
}

// Serve answers for the world on loopback, for the time of a test, and points
// the SDK's environment there. Nothing of the desk's own configuration is left.
func (w *World) Serve(t *testing.T) string {
	t.Helper()
	double := sts.Service(Account)
	double.Actions["AssumeRole"] = endpoint.Handle(w.assumeRole)
	w.endpoint = endpoint.New(AccessKey, w.wrap(w.ec2()), w.wrap(w.autoscaling()), w.wrap(w.eks()), w.wrap(w.iam()), w.wrap(w.ssm()), w.wrap(w.ecr()), w.wrap(double))
	server := httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": Region, "AWS_ACCESS_KEY_ID": AccessKey, "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_PROFILE": "",
		"AWS_SESSION_TOKEN": "",
	} {
		t.Setenv(name, value)
	}
	t.Cleanup(func() {
		for _, call := range w.endpoint.Refusals() {
			t.Errorf("the double refused %s", call)
		}
	})
	return server.URL
}

// Calls counts the calls so far by service and action.
func (w *World) Calls() map[string]int { return w.endpoint.Count() }

// Fail has the next calls of an action, such as eks:DescribeCluster, fail.
func (w *World) Fail(action string, times int, code string, status int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.faults == nil {
		w.faults = map[string][]*endpoint.Failure{}
	}
	for range times {
		w.faults[action] = append(w.faults[action], &endpoint.Failure{Code: code, Message: "as the test wants it", Status: status})
	}
}

// Before has something happen before each call of an action.
func (w *World) Before(action string, happens func()) {
	if w.before == nil {
		w.before = map[string]func(){}
	}
	w.before[action] = happens
}

// Deny has every call of an action refused for want of a permission.
func (w *World) Deny(action string) { w.denied = append(w.denied, action) }

// Break has every answer to an action cut off in the middle.
func (w *World) Break(action string) { w.broken = append(w.broken, action) }

// wrap puts the world's faults before a service's actions.
func (w *World) wrap(service endpoint.Service) endpoint.Service {
	for name, action := range service.Actions {
		full := service.Name + ":" + name
		service.Actions[name] = func(ctx context.Context, protocol endpoint.Protocol, call endpoint.Call) (any, error) {
			if err := w.fault(full); err != nil {
				return nil, err
			}
			w.mutex.Lock()
			defer w.mutex.Unlock()
			if happens := w.before[full]; happens != nil {
				happens()
			}
			return action(ctx, protocol, call)
		}
	}
	return service
}

func (w *World) fault(action string) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if slices.Contains(w.denied, action) {
		code := "AccessDeniedException"
		if strings.HasPrefix(action, "ec2:") {
			code = "UnauthorizedOperation"
		}
		return &endpoint.Failure{
			Code: code, Status: http.StatusForbidden,
			Message: "User: arn:aws:iam::" + Account + ":user/double is not authorized to perform: " + action,
		}
	}
	if waiting := w.faults[action]; len(waiting) > 0 {
		w.faults[action] = waiting[1:]
		return waiting[0]
	}
	return nil
}

// serve answers, and breaks the answers that are to be broken.
func (w *World) serve(out http.ResponseWriter, in *http.Request) {
	if len(w.broken) == 0 {
		w.endpoint.ServeHTTP(out, in)
		return
	}
	recorder := httptest.NewRecorder()
	w.endpoint.ServeHTTP(recorder, in)
	text := recorder.Body.Bytes()
	calls := w.endpoint.Calls()
	if last := calls[len(calls)-1]; slices.Contains(w.broken, last.Service+":"+last.Action) {
		text = text[:len(text)/2]
	}
	for name, values := range recorder.Header() {
		out.Header()[name] = values
	}
	out.WriteHeader(recorder.Code)
	_, _ = out.Write(text) // the client may have gone
}

// page gives a page of a list and the token of the next.
func page[R any](w *World, all []R, token string) ([]R, string) {
	size := w.PageSize
	if size == 0 {
		return all, ""
	}
	from, _ := strconv.Atoi(token) // no token is the first page
	to := min(from+size, len(all))
	next := ""
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	return all[min(from, to):to], next
}

// wildcard matches as EC2's filters do.
func wildcard(pattern, value string) bool {
	text := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile(`(?s)^` + text + `$`).MatchString(value)
}
