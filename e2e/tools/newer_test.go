package tools

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/lifecycle"
)

// toLoopback sends every request to a server on the loopback interface.
type toLoopback struct{ server *httptest.Server }

func (l toLoopback) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Asked", r.URL.Host)
	r.URL.Scheme, r.URL.Host = "http", strings.TrimPrefix(l.server.URL, "http://")
	return http.DefaultTransport.RoundTrip(r)
}

// compare runs Compare against a module proxy with these lists, and publishers with these
// answers by host.
func compare(t *testing.T, lists, publishers map[string]string, day string) News {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, there := lists[strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/"), "/@v/list")]
		if host := r.Header.Get("Asked"); host != "proxy.test" {
			text, there = publishers[host+r.URL.Path]
		}
		switch to, redirects := strings.CutPrefix(text, "to "); {
		case !there:
			http.NotFound(w, r)
		case redirects:
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		default:
			_, _ = w.Write([]byte(text)) // the client reports what is missing
		}
	}))
	t.Cleanup(server.Close)
	now, err := time.Parse(time.DateOnly, day)
	require.NoError(t, err)
	return Compare(t.Context(), &http.Client{Transport: toLoopback{server}}, "http://proxy.test", now)
}

func TestCompareNamesWhatIsNewerAndWhatEnds(t *testing.T) {
	news := compare(t, map[string]string{
		"k8s.io/kubernetes":                       "v1.36.3\nv1.36.10\nv1.36.9\nv1.38.0-rc.1\nv1.30.14\n",
		"github.com/containerd/containerd/v2":     "v2.3.7\nv2.5.0\nv2.4.2\nv2.2.99\n",
		"github.com/opencontainers/runc":          "v1.5.2\nv1.5.3+incompatible\n",
		"github.com/containernetworking/plugins":  "v1.9.1\n",
		"github.com/!shopify/toxiproxy/v2":        "v2.5.0\nv2.12.0\n",
		"go.etcd.io/etcd/server/v3":               "v3.5.35\n",
		"github.com/hashicorp/packer-plugin-qemu": "",
	}, map[string]string{
		"amazon-eks.s3.us-west-2.amazonaws.com/":                   "<Prefix>1.37.1/</Prefix><Prefix>1.38.0/</Prefix><Prefix>cloudformation/</Prefix>",
		"github.com/opencontainers/runc/releases/latest":           "to https://github.com/opencontainers/runc/releases/tag/v1.6.0",
		"github.com/containernetworking/plugins/releases/latest":   "to https://github.com/containernetworking/plugins/releases/tag/v1.9.1",
		"github.com/containerd/containerd/releases/latest":         "to https://github.com/containerd/containerd/releases/tag/v2.3.8",
		"github.com/kubernetes/cloud-provider-aws/releases/latest": "to /kubernetes/cloud-provider-aws/releases/tag/v1.37.2",
	}, "2026-11-24")
	assert.ElementsMatch(t, []string{
		"kubelet 1.36.10: the table has 1.36.3 (k8s.io/kubernetes)",
		"kubelet 1.37.1: EKS has it, and the table has no end of its support",
		"kubelet 1.38.0: the table has no line 1.38 (its publisher)",
		"containerd 2.5.0: the table has no line 2.5 (github.com/containerd/containerd/v2)",
		"containerd 2.3.8: the table has 2.3.7 (its publisher)",
		"runc 1.6.0: the table has no line 1.6 (its publisher)",
		"ecr-credential-provider 1.37.2: the table has 1.37.0 (its publisher)",
		"toxiproxy-server 2.12.0: the table has 2.5.0 (github.com/Shopify/toxiproxy/v2)",
		"standard support of Kubernetes 1.34 on EKS ends on 2026-12-02 (https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html)",
		"support of Fedora 43 ends on 2026-12-09 (https://fedorapeople.org/groups/schedule/)",
		"long-term service pack support of SUSE Linux Enterprise Server 15 SP4 ends on 2026-12-31 (https://www.suse.com/lifecycle)",
	}, news.Changes)
	assert.Contains(t, news.Away, "k8s.io/cloud-provider-aws: 404 Not Found")
	assert.NotContains(t, strings.Join(news.Away, "\n"), "qemu", "an empty list is an answer")
}

func TestCompareWithoutAnyNetwork(t *testing.T) {
	news := compare(t, nil, nil, "2029-01-01")
	assert.Empty(t, news.Changes)
	assert.Contains(t, news.Away, "k8s.io/kubernetes: 404 Not Found")
	assert.Contains(t, news.Away, "https://github.com/opencontainers/runc/releases/latest: 404 Not Found")
}

// Every program of the table of versions is compared.
func TestEveryProgramOfTheTableHasATool(t *testing.T) {
	for _, r := range lifecycle.All() {
		if r.Newest != "" {
			tool, _, err := Find(r.ID, r.Newest)
			require.NoError(t, err)
			assert.NotEmpty(t, tool.module)
		}
	}
}
