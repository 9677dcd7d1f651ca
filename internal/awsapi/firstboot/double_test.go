package firstboot

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// alone unsets every variable and file that configures the SDK.
func alone(t *testing.T) {
	t.Helper()
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "AWS_") || strings.HasSuffix(strings.ToUpper(name), "_PROXY") {
			t.Setenv(name, "")
			require.NoError(t, os.Unsetenv(name))
		}
	}
	t.Setenv("HOME", t.TempDir())
}

// instanceAt serves the metadata of a typical instance, which the SDK finds by the
// environment.
func instanceAt(t *testing.T) *imdstest.Service {
	t.Helper()
	alone(t)
	i := imdstest.Typical()
	i.UserData = []byte("hello")
	s := imdstest.Serve(i)
	t.Cleanup(s.Close)
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", s.URL)
	return s
}

// open opens the metadata service with few attempts.
func open(t *testing.T) *Metadata {
	t.Helper()
	m, err := OpenMetadata(t.Context())
	require.NoError(t, err)
	m.Attempts = 3
	return m
}

// node opens a node with short pauses.
func node(t *testing.T) *Node {
	t.Helper()
	n, err := OpenNode(t.Context(), open(t))
	require.NoError(t, err)
	n.pause = time.Millisecond
	return n
}

// double answers like EC2 and EKS and records the requests.
type double struct {
	mutex sync.Mutex
	// asked lists the actions, with the access key and the region of the signature.
	asked []string
	// before answers a request unless it returns false.
	before func(w http.ResponseWriter, action string, nth int) bool
	status string
}

func (a *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	action := r.PostFormValue("Action")
	if name, ok := strings.CutPrefix(r.URL.Path, "/clusters/"); ok {
		action = "DescribeCluster " + name
	}
	scope := strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="), "/")
	if len(scope) < 3 {
		scope = []string{"nobody", "", "nowhere"}
	}
	a.asked = append(a.asked, fmt.Sprintf("%s by %s in %s", action, scope[0], scope[2]))
	if a.before != nil && a.before(w, action, len(a.asked)) {
		return
	}
	switch action {
	case "DescribeInstances":
		fmt.Fprintf(w, `<DescribeInstancesResponse><reservationSet><item><instancesSet><item><privateDnsName>name-of-%s</privateDnsName></item></instancesSet></item></reservationSet></DescribeInstancesResponse>`, r.PostFormValue("InstanceId.1"))
	case "DescribeInstanceTypes":
		fmt.Fprint(w, `<DescribeInstanceTypesResponse><instanceTypeSet><item><instanceType>z9.large</instanceType><vCpuInfo><defaultVCpus>2</defaultVCpus></vCpuInfo><memoryInfo><sizeInMiB>8192</sizeInMiB></memoryInfo>
<networkInfo><defaultNetworkCardIndex>1</defaultNetworkCardIndex><ipv4AddressesPerInterface>10</ipv4AddressesPerInterface><maximumNetworkInterfaces>7</maximumNetworkInterfaces>
<networkCards><item><networkCardIndex>0</networkCardIndex><maximumNetworkInterfaces>4</maximumNetworkInterfaces></item><item><networkCardIndex>1</networkCardIndex><maximumNetworkInterfaces>3</maximumNetworkInterfaces></item></networkCards></networkInfo></item></instanceTypeSet></DescribeInstanceTypesResponse>`)
	default:
		fmt.Fprintf(w, `{"cluster": {"name": "c", "id": "an-id", "status": %q, "endpoint": "https://endpoint", "certificateAuthority": {"data": %q},
"kubernetesNetworkConfig": {"serviceIpv4Cidr": "10.100.0.0/16", "serviceIpv6Cidr": "fd00::/108", "ipFamily": "ipv6"}, "outpostConfig": {"outpostArns": ["arn:aws:outposts:1"]}}}`,
			a.status, base64.StdEncoding.EncodeToString([]byte("ca")))
	}
}

func (a *double) requests() []string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return append([]string(nil), a.asked...)
}

// serveAWS serves EC2 and EKS on loopback.
func serveAWS(t *testing.T) (*double, string) {
	t.Helper()
	a := &double{status: "ACTIVE"}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	return a, s.URL
}

// withAWS serves an instance's metadata, and EC2 and EKS at the address in a variable.
func withAWS(t *testing.T, variable string) *double {
	t.Helper()
	instanceAt(t)
	a, address := serveAWS(t)
	t.Setenv(variable, address)
	return a
}

// fails gives the first requests another answer.
func (a *double) fails(times, status int, body string) {
	a.before = func(w http.ResponseWriter, _ string, nth int) bool {
		if nth > times {
			return false
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // the client may have gone
		return true
	}
}

// proxy is a proxy that records the targets of connections. It always connects to
// one server, or to none.
type proxy struct {
	mutex sync.Mutex
	hosts []string
	to    string
}

func serveProxy(t *testing.T, to string) (*proxy, string) {
	t.Helper()
	p := &proxy{to: to}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return p, s.URL
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mutex.Lock()
	p.hosts = append(p.hosts, r.Host)
	p.mutex.Unlock()
	if r.Method != http.MethodConnect || p.to == "" {
		http.Error(w, "not here", http.StatusForbidden)
		return
	}
	testkit.Tunnel(w, p.to, nil)
}

func (p *proxy) asked() []string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return append([]string(nil), p.hosts...)
}

// dialing connects to one server for any address and records the addresses. It may
// refuse one address.
func dialing(server, refused string, addresses *[]string) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		*addresses = append(*addresses, address)
		if address == refused {
			return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("no route to %s", address)}
		}
		return (&net.Dialer{}).DialContext(ctx, network, server)
	}
}
