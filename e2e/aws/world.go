//go:build linux

// Package aws is test code: AWS on loopback, for the real SDK and the real Packer. README.md says
// which calls are moto's, and which are ours.
package aws

import (
	"context"
	"crypto/ecdsa"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

const (
	// AccessKey is the only accepted access key.
	AccessKey = "AKIATEST"
	// Account is the account of all callers.
	Account = "123456789012"
	// Region is the initial region of a World.
	Region = "eu-west-1"
)

// World is AWS for a test. Its fields may be changed between calls.
type World struct {
	// Region is the region of Do; the constant Region when empty.
	Region string
	// PageSize is the number of items in a page of a list.
	PageSize int
	// Enabled are the regions that the account has enabled; empty means moto's.
	Enabled []string
	// Images and Snapshots are the existing ones.
	Images    []*Image
	Snapshots []*Snapshot
	// Volumes are those that CreateSnapshot knows, by ID.
	Volumes map[string]Volume
	// Clusters replaces fields of moto's clusters, by name and JSON key. A nil
	// removes a key.
	Clusters map[string]map[string]any
	// APIServer is the endpoint of clusters that CreateCluster makes, and Authority its
	// certificate authority; empty for those of the sample.
	APIServer, Authority string
	// Entries are the types of access entries, by principal.
	Entries map[string]string
	// Addons are add-ons by name, in EKS's JSON.
	Addons map[string]map[string]any
	// NodeGroups replaces fields of moto's node groups, by name and JSON key.
	NodeGroups map[string]map[string]any
	// Associations are pod identity associations.
	Associations []Association
	// Guardrails are service control policies, as JSON.
	Guardrails []string
	// Published are the public parameters of AWS and of publishers, in every
	// region.
	Published map[string]string
	// Health is the result of EC2's checks of all instances. DefaultKey is the KMS
	// key with which EBS encrypts by default, or empty.
	Health     Health
	DefaultKey string
	// BlockPublic has the regions where AMIs cannot be public, and who decided that:
	// account or declarative-policy.
	BlockPublic map[string]string
	// Limits are the quotas that are not AWS's defaults, by code.
	Limits map[string]int
	// Plan is the account's plan, FREE or PAID, or empty for an account without one.
	Plan string
	// Allowed are the settings of allowed images, in all regions.
	Allowed AllowedImages
	// Machines starts the machines behind instances. If nil, instances have no
	// machines.
	Machines Machines
	// Folder is the folder of captured disks, and of those of registered images. If
	// empty, registered images have no disks.
	Folder string

	t         testing.TB
	moto      *moto             // nil in a light world
	light     map[string]string // parameters of a light world, by region and name
	ctx       context.Context   // ends with the world
	names     *names
	keys      map[string]string // authorized keys by key pair
	templates map[string]url.Values
	running   map[string]Machine
	metadata  map[string]string // XML by instance
	mutex     sync.Mutex        // protects the fields that calls change
	serial    int
	mayRefuse bool
	faults    sync.Mutex
	failures  map[string][]*endpoint.Failure
	before    map[string]func()
	answers   map[string]string
	edits     map[string][]edit
	denied    []string
	permitted []statement // nil: all calls
	broken    []string
	cut       []string // regions
	endpoint  *endpoint.Endpoint
	front     front
	copies    map[string]string // image by region and client token
	ebs       *ebsdirect.Double
	signing   *ecdsa.PrivateKey
	ebsURL    string
}

// New returns an account with only the default networks, until the test ends.
func New(t *testing.T) *World {
	t.Helper()
	server, err := started()
	require.NoError(t, err)
	return newWorld(t, server, false)
}

// NewWithEBS is New, Serve and ServeEBS.
func NewWithEBS(t *testing.T) (*World, *ebsdirect.Double) {
	t.Helper()
	w := New(t)
	w.Serve()
	return w, w.ServeEBS()
}

// newWorld returns a proxy in front of a copy of moto. Of a copy for copies, the test
// does not end it.
func newWorld(t *testing.T, server *moto, forCopies bool) *World {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := blank(ctx, t)
	var err error
	w.moto, err = server.copy(forCopies)
	require.NoError(t, err)
	t.Cleanup(func() {
		cancel()
		if !forCopies {
			defer w.moto.end()
		}
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

// blank returns an empty account.
func blank(ctx context.Context, t testing.TB) *World {
	w := &World{
		Clusters: map[string]map[string]any{}, Entries: map[string]string{}, Addons: map[string]map[string]any{}, Published: map[string]string{},
		t: t, ctx: ctx, names: &names{}, keys: map[string]string{}, running: map[string]Machine{}, templates: map[string]url.Values{}, metadata: map[string]string{},
		failures: map[string][]*endpoint.Failure{}, before: map[string]func(){}, answers: map[string]string{},
		edits: map[string][]edit{}, copies: map[string]string{},
		front: front{count: map[string]int{}, again: map[string]int{}, late: map[any]*late{}, gone: map[any]int{}, taken: map[string]int{}, puts: map[string]*put{}},
	}
	w.endpoint = endpoint.New(AccessKey, w.services()...)
	w.Behave(Mild(hash(t.Name())))
	return w
}

// MayRefuse keeps refused calls from failing the test.
func (w *World) MayRefuse() { w.mayRefuse = true }

// Serve listens on loopback and points the SDK's environment to the listener.
// It removes the workstation's own AWS configuration from the environment.
func (w *World) Serve() string {
	w.t.Helper()
	server := httptest.NewServer(w)
	w.t.Cleanup(server.Close)
	endpoint.Environment(w.t, map[string]string{"AWS_ENDPOINT_URL": server.URL})
	return server.URL
}

// Calls returns the calls so far, without those of Do.
func (w *World) Calls() []endpoint.Call { return w.endpoint.Calls() }

// Count returns the number of calls so far by service and action, without those that were
// throttled or whose answers were lost.
func (w *World) Count() map[string]int {
	w.front.mutex.Lock()
	defer w.front.mutex.Unlock()
	count := w.endpoint.Count()
	for full, again := range w.front.again {
		count[full] -= again
	}
	return count
}

// Refusals returns the unsupported calls so far.
func (w *World) Refusals() []endpoint.Call { return w.endpoint.Refusals() }

// Admits reports whether a role has an access entry.
func (w *World) Admits(role string) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for principal := range w.Entries {
		if strings.HasSuffix(principal, "/"+role) {
			return true
		}
	}
	return false
}

// Fail makes the next calls of an action, such as eks:DescribeCluster, fail.
func (w *World) Fail(action string, times int, code string, status int) {
	w.faults.Lock()
	defer w.faults.Unlock()
	for range times {
		w.failures[action] = append(w.failures[action], &endpoint.Failure{Code: code, Message: "as the test wants it", Status: status})
	}
}

// Before calls a function before each call of an action.
func (w *World) Before(action string, happens func()) { w.before[action] = happens }

// Answer makes every call of an action return a fixed text, for actions that
// moto cannot carry out.
func (w *World) Answer(action, text string) { w.answers[action] = text }

// Deny refuses every call of an action, or in a region, for a missing permission.
func (w *World) Deny(action string) { w.denied = append(w.denied, action) }

// Break truncates every response of an action.
func (w *World) Break(action string) { w.broken = append(w.broken, action) }

// Heal removes every denial, failure, truncation and policy.
func (w *World) Heal() {
	w.faults.Lock()
	defer w.faults.Unlock()
	w.denied, w.broken, w.cut, w.permitted, w.failures = nil, nil, nil, nil, map[string][]*endpoint.Failure{}
}

// wrap applies the world's faults before a service's actions.
func (w *World) wrap(service endpoint.Service) endpoint.Service {
	for name, action := range service.Actions {
		full := service.Name + ":" + name
		service.Actions[name] = func(ctx context.Context, protocol endpoint.Protocol, call endpoint.Call) (any, error) {
			if err := w.fault(full, call.Region); err != nil {
				return nil, err
			}
			if err := w.permit(full, call); err != nil {
				return nil, err
			}
			if happens := w.before[full]; happens != nil {
				happens()
			}
			if w.ebs != nil {
				if failure := w.ebs.Meet(name); failure != nil {
					return nil, failure
				}
			}
			if text, canned := w.answers[full]; canned {
				return &endpoint.Raw{Status: http.StatusOK, Body: []byte(text)}, nil
			}
			var answer any
			err := w.around(full, call.Region, func() (err error) {
				answer, err = action(ctx, protocol, call)
				return err
			})
			return w.edited(full, answer, err)
		}
	}
	return service
}

func (w *World) fault(action, region string) error {
	w.faults.Lock()
	defer w.faults.Unlock()
	if slices.Contains(w.cut, region) {
		panic(http.ErrAbortHandler) // closes the connection
	}
	if slices.Contains(w.denied, action) || slices.Contains(w.denied, region) {
		return denial(action)
	}
	if waiting := w.failures[action]; len(waiting) > 0 {
		w.failures[action] = waiting[1:]
		return waiting[0]
	}
	return nil
}

func denial(action string) error {
	code := "AccessDeniedException"
	if strings.HasPrefix(action, "ec2:") {
		code = "UnauthorizedOperation"
	}
	return &endpoint.Failure{
		Code: code, Status: http.StatusForbidden,
		Message: "User: arn:aws:iam::" + Account + ":user/double is not authorized to perform: " + action,
	}
}

// ServeHTTP serves responses in pages, and truncates those of broken actions.
func (w *World) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	size := w.PageSize
	token := ""
	if size > 0 {
		token = takeToken(in)
	}
	recorder := httptest.NewRecorder()
	call := w.endpoint.Serve(recorder, in)
	text := recorder.Body.Bytes()
	if size > 0 && recorder.Code == http.StatusOK &&
		slices.Contains(strings.Fields(calls()[call.Service].Pages), call.Action) {
		text = page(text, token, size)
	}
	if slices.Contains(w.broken, call.Service+":"+call.Action) {
		text = text[:len(text)/2]
	}
	for name, values := range recorder.Header() {
		if name != "Content-Length" {
			out.Header()[name] = values
		}
	}
	out.WriteHeader(recorder.Code)
	_, _ = out.Write(text) // the client may have closed the connection
}
