package ebsdirect

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// BlockSize is the size of every block, in bytes (API, PutSnapshotBlock).
const BlockSize = 512 << 10

// Double serves the EBS direct APIs. It is an http.Handler. Its exported fields may be changed
// between calls.
type Double struct {
	// Account owns the snapshots of the caller.
	Account string
	Region  string
	// AccessKey is the caller's.
	AccessKey string
	// EC2 serves the calls of other services, such as those that describe snapshots. If nil, they
	// are refused.
	EC2 http.Handler
	// EncryptByDefault says that the account encrypts new volumes and snapshots with
	// DefaultKey, the ARN of a KMS key.
	EncryptByDefault bool
	DefaultKey       string
	// Keys are the ARNs of the KMS keys that the caller may use, with DefaultKey.
	// KeyStates are the states of those that cannot be used.
	Keys      []string
	KeyStates map[string]string
	// Allowed decides about IAM permissions, such as ebs:PutSnapshotBlock for the ARN of
	// a snapshot, and those for KMS keys with condition keys in lower case. If nil, all
	// calls are allowed.
	Allowed func(action, resource string, keys map[string][]string) bool
	// Quotas limit the calls.
	Quotas Quotas
	// Line is the network between the caller and the service.
	Line Line
	// NotFoundYet is how many puts into a new snapshot fail with 404. AWS has answered
	// so for up to two minutes after the start
	// (https://github.com/awslabs/coldsnap/issues/43).
	NotFoundYet int
	// Completing is how often a completed snapshot is still shown as pending:
	// CompleteSnapshot is asynchronous (API, CompleteSnapshot).
	Completing int
	// EmptyPages makes every second page of a list empty, with a token for the next
	// page (API, ListSnapshotBlocks).
	EmptyPages bool
	// PageMost is the maximum number of blocks on a page, or 0: a page may have fewer
	// blocks than MaxResults (API, ListSnapshotBlocks).
	PageMost int
	// Around carries a call out by calling do, which may be repeated. If nil, each call is
	// carried out once.
	Around func(action string, do func() *Failure) *Failure
	// Now is the time. It decides when tokens and pending snapshots expire.
	Now func() time.Time
	// Forget keeps only the checksums of blocks that callers put.
	Forget bool

	folder string
	mutex  sync.Mutex
	// all are the snapshots in the order of their start.
	all    []*Snapshot
	starts map[string]start
	tokens map[string]token
	pages  map[string]page
	used   Count
	usage  usage
	// running is the number of calls at this moment.
	running atomic.Int32
	line    line
	faults  map[string][]*Failure
	before  map[string]func()
}

// Count is the number of calls by action, and of bytes in blocks.
type Count struct {
	Calls map[string]int
	// Sent and Fetched are the bytes of blocks that callers put and got.
	Sent, Fetched int64
}

// New returns an account without snapshots. Folder is for the content of snapshots.
func New(folder string) *Double {
	return &Double{
		Account: "123456789012", Region: "eu-west-1", AccessKey: "AKIATEST",
		DefaultKey: "arn:aws:kms:eu-west-1:123456789012:key/aws-ebs", KeyStates: map[string]string{}, Now: time.Now, Quotas: Default(),
		folder: folder, starts: map[string]start{}, tokens: map[string]token{}, pages: map[string]page{},
		used: Count{Calls: map[string]int{}}, faults: map[string][]*Failure{}, before: map[string]func(){},
	}
}

// Failure is an error response.
type Failure = endpoint.Failure

func failing(status int, code, reason, format string, args ...any) *Failure {
	return &Failure{Status: status, Code: code, Message: fmt.Sprintf(format, args...), Reason: reason}
}

func invalid(reason, format string, args ...any) *Failure {
	return failing(http.StatusBadRequest, "ValidationException", reason, format, args...)
}

func missing(reason, format string, args ...any) *Failure {
	return failing(http.StatusNotFound, "ResourceNotFoundException", reason, format, args...)
}

func denied(reason, format string, args ...any) *Failure {
	return failing(http.StatusForbidden, "AccessDeniedException", reason, format, args...)
}

// Fail makes the next calls of an action fail. A failure with the status 0 closes the
// connection.
func (d *Double) Fail(action string, times int, with Failure) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for range times {
		d.faults[action] = append(d.faults[action], &with)
	}
}

// Heal removes every failure.
func (d *Double) Heal() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.faults = map[string][]*Failure{}
}

// Before calls a function before each call of an action.
func (d *Double) Before(action string, happens func()) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.before[action] = happens
}

// Hold lets the first calls of an action pass, and holds those after them until release.
// The channel held closes when the first of these has come.
func (d *Double) Hold(action string, pass int32) (held <-chan struct{}, release func()) {
	come, goOn := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	d.Before(action, func() {
		n := calls.Add(1)
		if n == pass+1 {
			close(come)
		}
		if n > pass {
			<-goOn
		}
	})
	return come, sync.OnceFunc(func() {
		d.Before(action, nil)
		close(goOn)
	})
}

// Count returns the calls so far.
func (d *Double) Count() Count {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	c := d.used
	c.Calls = map[string]int{}
	maps.Copy(c.Calls, d.used.Calls)
	return c
}

// ServeHTTP answers a call.
func (d *Double) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	if in.URL.Path == "/" && d.EC2 != nil {
		d.EC2.ServeHTTP(out, in)
		return
	}
	out.Header().Set("X-Amzn-Requestid", random(32))
	action, id, carryOut := d.route(in)
	if carryOut == nil {
		write(out, failing(http.StatusNotFound, "UnknownOperationException", "", "%s %s", in.Method, in.URL.Path))
		return
	}
	body, err := readAll(http.MaxBytesReader(out, in.Body, BlockSize+1), in.ContentLength)
	if err != nil {
		write(out, invalid("INVALID_BLOCK", "reading the body: %v", err))
		return
	}
	d.Line.wait(&d.line, len(body))
	running := d.running.Add(1)
	defer d.running.Add(-1)
	failure := d.Meet(action)
	carry := func() *Failure {
		in.Body = io.NopCloser(bytes.NewReader(body))
		return carryOut(id, out, in)
	}
	if d.Around != nil {
		carry = d.around(action, carryOut, id, body, out, in)
	}
	for _, next := range []func() *Failure{
		func() *Failure { return d.limited(action, id, int(running)) },
		func() *Failure { return d.signed(in) },
		func() *Failure { return d.authorize("ebs:"+action, id) },
		func() *Failure { return queried(action, in.URL.Query()) },
		carry,
	} {
		if failure == nil {
			failure = next()
		}
	}
	switch {
	case failure == nil:
	case failure.Status == 0:
		panic(http.ErrAbortHandler)
	default:
		write(out, shortened(failure))
	}
}

// readAll is io.ReadAll in one piece of memory: thousands of blocks are read.
func readAll(from io.Reader, length int64) ([]byte, error) {
	var all bytes.Buffer
	all.Grow(int(min(max(length, 0), BlockSize)) + bytes.MinRead)
	_, err := all.ReadFrom(from)
	return all.Bytes(), err
}

// around is a call that Around carries out. Only the last answer goes out.
func (d *Double) around(action string, carryOut handler, id string, body []byte, out http.ResponseWriter, in *http.Request) func() *Failure {
	return func() *Failure {
		var answer *httptest.ResponseRecorder
		failure := d.Around(action, func() *Failure {
			in.Body, answer = io.NopCloser(bytes.NewReader(body)), httptest.NewRecorder()
			return carryOut(id, answer, in)
		})
		if failure == nil {
			maps.Copy(out.Header(), answer.Header())
			out.WriteHeader(answer.Code)
			_, _ = out.Write(answer.Body.Bytes()) // the caller may have closed the connection
		}
		return failure
	}
}

// Meet counts a call, calls what happens before it, and returns the failure that a test has for it.
func (d *Double) Meet(action string) *Failure {
	d.mutex.Lock()
	d.used.Calls[action]++
	happens := d.before[action]
	var failure *Failure
	if waiting := d.faults[action]; len(waiting) > 0 {
		failure, d.faults[action] = waiting[0], waiting[1:]
	}
	d.mutex.Unlock()
	if happens != nil {
		happens()
	}
	return failure
}

// limited returns the failure of a call that passes a quota, with so many calls at the moment.
func (d *Double) limited(action, id string, running int) *Failure {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.Quotas.Concurrent > 0 && running > d.Quotas.Concurrent {
		return failing(http.StatusBadRequest, "ConcurrentLimitExceededException", "",
			"too many calls at the same time")
	}
	return d.usage.take(d.Quotas, action, id)
}

// handler carries out a call about a snapshot.
type handler func(id string, out http.ResponseWriter, in *http.Request) *Failure

// route finds the action of a call by its method and path (API), and the ID of the
// snapshot. A snapshot that does not exist yet has the ID "*".
func (d *Double) route(in *http.Request) (action, id string, carryOut handler) {
	parts := strings.Split(strings.Trim(in.URL.Path, "/"), "/")
	if parts[0] != "snapshots" {
		return "", "", nil
	}
	switch {
	case in.Method == http.MethodPost && len(parts) == 1:
		return "StartSnapshot", "*", d.start
	case in.Method == http.MethodPost && len(parts) == 3 && parts[1] == "completion":
		return "CompleteSnapshot", parts[2], d.complete
	case in.Method == http.MethodGet && len(parts) == 3 && parts[2] == "blocks":
		return "ListSnapshotBlocks", parts[1], d.list
	case in.Method == http.MethodGet && len(parts) == 3 && parts[2] == "changedblocks":
		return "ListChangedBlocks", parts[1], d.changed
	case len(parts) == 4 && parts[2] == "blocks" && in.Method == http.MethodPut:
		return "PutSnapshotBlock", parts[1], d.put
	case len(parts) == 4 && parts[2] == "blocks" && in.Method == http.MethodGet:
		return "GetSnapshotBlock", parts[1], d.get
	}
	return "", "", nil
}

func write(out http.ResponseWriter, failure *Failure) {
	out.Header().Set("X-Amzn-Errortype", failure.Code)
	answer(out, failure.Status, failure)
}

func answer(out http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // a value of this package
	}
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(status)
	_, _ = out.Write(text) // the caller may have closed the connection
}

func random(digits int) string {
	raw := make([]byte, digits/2+1)
	_, _ = rand.Read(raw) // never fails, by its documentation
	return hex.EncodeToString(raw)[:digits]
}
