//go:build linux

// Package aws is test code: AWS on loopback, for the real SDK and the real
// Packer. moto (https://docs.getmoto.org) keeps the state of networks,
// instances, launch templates, Auto Scaling, IAM, SSM, STS, ECR and EKS
// clusters: it is somebody else's understanding of AWS. A World stands before
// it and adds what moto lacks:
//
//   - images and snapshots, captures and copies;
//   - machines that really boot behind the instances (Machines);
//   - EKS's access entries and add-ons, and what clusters say about them;
//   - permissions that are denied, calls that fail, answers that are cut off or
//     come in pages;
//   - refusals: an action or a parameter that neither knows fails the test, as
//     moto would ignore it in silence.
//
// Package endpoint has the protocols, package cli reads commands of the AWS CLI.
package aws

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

const (
	// AccessKey is the only one that is let in.
	AccessKey = "AKIATEST"
	// Account is whose calls are answered.
	Account = "123456789012"
	// Region is where a World begins.
	Region = "eu-west-1"
)

// World is AWS as a test wants it. Its fields may be changed between calls.
type World struct {
	// Region is where Do calls; Region when empty.
	Region string
	// PageSize is how many of a list come at once.
	PageSize int
	// Images and Snapshots are those that exist.
	Images    []*Image
	Snapshots []*Snapshot
	// Clusters replaces what moto says of clusters, by name and JSON key; a nil
	// takes a key away.
	Clusters map[string]map[string]any
	// Entries are access entries' types by principal.
	Entries map[string]string
	// Addons are add-ons by name, as EKS writes them in JSON.
	Addons map[string]map[string]any
	// Published are public parameters of AWS and of publishers, in every region.
	Published map[string]string
	// SSMDelay is how often a parameter that was put is still read as it was.
	SSMDelay int
	// Machines makes the machines behind instances; without it there are none.
	Machines Machines
	// Folder is where captured disks are kept.
	Folder string

	t         *testing.T
	moto      *moto
	ctx       context.Context // ends with the world
	names     *names
	keys      map[string]string // authorized keys by key pair
	running   map[string]Machine
	metadata  map[string]string // XML by instance
	pending   func() error
	mutex     sync.Mutex // of what calls change
	serial    int
	mayRefuse bool
	faults    sync.Mutex
	failures  map[string][]*endpoint.Failure
	before    map[string]func()
	answers   map[string]string
	denied    []string
	broken    []string
	endpoint  *endpoint.Endpoint
}

// New is an account with nothing in it but the default networks, for the time
// of a test. There is one at a time.
func New(t *testing.T) *World {
	t.Helper()
	w := newWorld(t)
	require.NoError(t, w.moto.reset())
	return w
}

// newWorld stands before whatever moto has.
func newWorld(t *testing.T) *World {
	t.Helper()
	server, err := started()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	w := &World{
		Clusters: map[string]map[string]any{}, Entries: map[string]string{}, Addons: map[string]map[string]any{}, Published: map[string]string{},
		t: t, moto: server, ctx: ctx, names: &names{}, keys: map[string]string{}, running: map[string]Machine{}, metadata: map[string]string{},
		failures: map[string][]*endpoint.Failure{}, before: map[string]func(){}, answers: map[string]string{},
	}
	var all []endpoint.Service
	for _, s := range w.services() {
		all = append(all, w.wrap(s))
	}
	w.endpoint = endpoint.New(AccessKey, all...)
	t.Cleanup(func() {
		cancel()
		for _, m := range w.running {
			if err := m.Close(); err != nil {
				t.Errorf("closing a machine: %v", err)
			}
		}
		for _, call := range w.endpoint.Refusals() {
			if !w.mayRefuse {
				t.Errorf("refused: %s", call)
			}
		}
	})
	return w
}

// MayRefuse lets the test end well although calls were refused.
func (w *World) MayRefuse() { w.mayRefuse = true }

// Serve listens on loopback and points the SDK's environment there. Nothing of
// the workstation's own configuration is left.
func (w *World) Serve() string {
	w.t.Helper()
	server := httptest.NewServer(w)
	w.t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": Region, "AWS_ACCESS_KEY_ID": AccessKey, "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_PROFILE": "",
		"AWS_SESSION_TOKEN": "",
	} {
		w.t.Setenv(name, value)
	}
	return server.URL
}

// Calls are the calls so far, but for those of Do.
func (w *World) Calls() []endpoint.Call { return w.endpoint.Calls() }

// Count counts the calls so far by service and action.
func (w *World) Count() map[string]int { return w.endpoint.Count() }

// Refusals are the calls so far that nobody understood.
func (w *World) Refusals() []endpoint.Call { return w.endpoint.Refusals() }

// Fail has the next calls of an action, such as eks:DescribeCluster, fail.
func (w *World) Fail(action string, times int, code string, status int) {
	w.faults.Lock()
	defer w.faults.Unlock()
	for range times {
		w.failures[action] = append(w.failures[action], &endpoint.Failure{Code: code, Message: "as the test wants it", Status: status})
	}
}

// Before has something happen before each call of an action.
func (w *World) Before(action string, happens func()) { w.before[action] = happens }

// Answer has every call of an action answered with a text, for what moto cannot.
func (w *World) Answer(action, text string) { w.answers[action] = text }

// Deny has every call of an action refused for want of a permission.
func (w *World) Deny(action string) { w.denied = append(w.denied, action) }

// Break has every answer to an action cut off in the middle.
func (w *World) Break(action string) { w.broken = append(w.broken, action) }

// Heal takes back every denial, failure and break.
func (w *World) Heal() {
	w.faults.Lock()
	defer w.faults.Unlock()
	w.denied, w.broken, w.failures = nil, nil, map[string][]*endpoint.Failure{}
}

// wrap puts the world's faults before a service's actions.
func (w *World) wrap(service endpoint.Service) endpoint.Service {
	for name, action := range service.Actions {
		full := service.Name + ":" + name
		service.Actions[name] = func(ctx context.Context, protocol endpoint.Protocol, call endpoint.Call) (any, error) {
			if err := w.fault(full); err != nil {
				return nil, err
			}
			if happens := w.before[full]; happens != nil {
				happens()
			}
			if text, canned := w.answers[full]; canned {
				return &endpoint.Raw{Status: http.StatusOK, Body: []byte(text)}, nil
			}
			return action(ctx, protocol, call)
		}
	}
	return service
}

func (w *World) fault(action string) error {
	w.faults.Lock()
	defer w.faults.Unlock()
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
	if waiting := w.failures[action]; len(waiting) > 0 {
		w.failures[action] = waiting[1:]
		return waiting[0]
	}
	return nil
}

// ServeHTTP answers, in pages, and breaks the answers that are to be broken.
func (w *World) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	size := w.PageSize
	token := ""
	if size > 0 {
		token = takeToken(in)
	}
	recorder := httptest.NewRecorder()
	w.endpoint.ServeHTTP(recorder, in)
	text := recorder.Body.Bytes()
	calls := w.endpoint.Calls()
	last := calls[len(calls)-1]
	if size > 0 && recorder.Code == http.StatusOK && paged[last.Action] {
		text = page(text, token, size)
	}
	if slices.Contains(w.broken, last.Service+":"+last.Action) {
		text = text[:len(text)/2]
	}
	for name, values := range recorder.Header() {
		if name != "Content-Length" {
			out.Header()[name] = values
		}
	}
	out.WriteHeader(recorder.Code)
	_, _ = out.Write(text) // the client may have gone
}
