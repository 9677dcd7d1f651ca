//go:build linux

package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/firstboot"
)

func TestProgramNamesSelectCommands(t *testing.T) {
	for _, c := range []struct{ argv, want []string }{
		{[]string{"/usr/bin/eksnode", "audit"}, []string{"audit"}},
		{[]string{"nodeadm", "init", "-c", "x"}, []string{"nodeadm", "init", "-c", "x"}},
		{[]string{"/usr/bin/nodeadm"}, []string{"nodeadm"}},
		{[]string{"nodeadm", "-d", "init", "-d", "kubelet"}, []string{"nodeadm", "--development", "init", "-d", "kubelet"}},
		{[]string{"/etc/eks/bootstrap.sh", "my-cluster"}, []string{"bootstrap.sh", "my-cluster"}},
		{[]string{"/usr/bin/aws-iam-authenticator", "token", "-i", "c"}, []string{"aws-iam-authenticator", "token", "-i", "c"}},
		{nil, nil},
	} {
		assert.Equal(t, c.want, commandLine(c.argv))
	}
}

// printed returns the credential that a command prints for the kubelet, and the
// address in its token.
func printed(t *testing.T, args ...string) (execCredential, *url.URL) {
	t.Helper()
	var out, errOut bytes.Buffer
	require.Zero(t, run(t.Context(), args, strings.NewReader(""), &out, &errOut), errOut.String())
	answer := testkit.JSON[execCredential](t, out.Bytes())
	text, ok := strings.CutPrefix(answer.Status.Token, "k8s-aws-v1.")
	require.True(t, ok)
	address, err := base64.RawURLEncoding.DecodeString(text)
	require.NoError(t, err)
	u, err := url.Parse(string(address))
	require.NoError(t, err)
	return answer, u
}

func TestTokenNeedsOnlyTheMetadataService(t *testing.T) {
	service := imdstest.Serve(imdstest.Typical())
	defer service.Close()
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.URL)
	for _, args := range [][]string{
		{"token", "--cluster-name", "my-cluster", "--region", "eu-west-1"},
		{"token", "--cluster-name", "my-cluster"},
		commandLine([]string{"aws-iam-authenticator", "token", "-i", "my-cluster", "--region", "eu-west-1"}),
	} {
		answer, address := printed(t, args...)
		assert.Equal(t, "ExecCredential", answer.Kind)
		assert.Equal(t, "client.authentication.k8s.io/v1beta1", answer.APIVersion)
		assert.Equal(t, "sts.eu-west-1.amazonaws.com", address.Host)
		assert.Equal(t, "host;x-k8s-aws-id", address.Query().Get("X-Amz-SignedHeaders"))
		assert.Contains(t, address.Query().Get("X-Amz-Credential"), "ASIAFAKE/")
	}
	t.Setenv(execInfo, `{"apiVersion": "client.authentication.k8s.io/v1"}`)
	answer, _ := printed(t, "token", "--cluster-name", "my-cluster")
	assert.Equal(t, "client.authentication.k8s.io/v1", answer.APIVersion)
}

func TestUserDataIsReadFromTheMetadataService(t *testing.T) {
	i := imdstest.Typical()
	i.UserData = []byte("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {cluster: {name: a, apiServerEndpoint: \"https://a\", certificateAuthority: Y2E=, cidr: 10.0.0.0/16}}\n")
	service := imdstest.Serve(i)
	defer service.Close()
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.URL)
	var out, errOut bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"nodeadm", "config", "dump"}, nil, &out, &errOut), errOut.String())
	assert.Contains(t, out.String(), `"name": "a"`)
	assert.Equal(t, []string{"api/token", "user-data"}, service.Requests())
}

func booting(t *testing.T, files map[string]string) (*host.Host, *[]string, func(string)) {
	t.Helper()
	h := hosttest.Root(t, files)
	var lines []string
	return h, &lines, func(line string) { lines = append(lines, line) }
}

func metadata(t *testing.T, address string) *firstboot.Metadata {
	t.Helper()
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", address)
	m, err := firstboot.OpenMetadata(t.Context())
	require.NoError(t, err)
	return m
}

const vendor = "/sys/class/dmi/id/sys_vendor"

func TestBootOutsideEC2DoesNotWait(t *testing.T) {
	nobody := httptest.NewServer(http.NotFoundHandler())
	nobody.Close()
	slow := imdstest.Serve(imdstest.Typical())
	defer slow.Close()
	slow.Set(func(o *imdstest.Settings) { o.Delay = time.Hour })
	for name, address := range map[string]string{"connection refused": nobody.URL, "no response": slow.URL} {
		t.Run(name, func(t *testing.T) {
			for _, patience := range []time.Duration{0, 20 * time.Millisecond} {
				h, lines, log := booting(t, map[string]string{vendor: "QEMU\n"})
				there, err := awaitIMDS(t.Context(), h, metadata(t, address), patience, log)
				require.NoError(t, err)
				assert.False(t, there)
				assert.Equal(t, []string{`nothing to do: this is not an EC2 instance (the machine's vendor is "QEMU"), and no instance metadata service answers`}, *lines)
			}
		})
	}
}

func TestMetadataServiceOutsideEC2IsUsed(t *testing.T) {
	service := imdstest.Serve(imdstest.Typical())
	defer service.Close()
	service.Set(func(o *imdstest.Settings) { o.Fail, o.Status = 2, http.StatusServiceUnavailable })
	h, lines, log := booting(t, nil)
	client := metadata(t, service.URL)
	there, err := awaitIMDS(t.Context(), h, client, elsewhere, log)
	require.NoError(t, err)
	assert.True(t, there)
	assert.Empty(t, *lines)
	_, err = client.Get(t.Context(), "meta-data/mac")
	require.NoError(t, err)
	assert.Equal(t, []string{"api/token", "api/token", "api/token", "meta-data/instance-id", "meta-data/mac"}, service.Requests(), "the token is kept")
}

// On EC2, and with a NodeConfig or a cache, boot does not probe the metadata service;
// the first reader waits for this service.
func TestBootWithNodeConfigDoesNotProbe(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"EC2":                  {vendor: "Amazon EC2\n"},
		"a NodeConfig":         {vendor: "QEMU\n", "/etc/eks/nodeadm.d/a.yaml": "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"},
		"found before":         {vendor: "QEMU\n", "/run/eksnode/instance.json": "{}\n"},
		"a damaged NodeConfig": {vendor: "QEMU\n", "/etc/eks/nodeadm.d/a.yaml": "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspek: {}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			h, lines, log := booting(t, files)
			client := metadata(t, "http://127.0.0.1:1")
			i := initFlags{joining: joining{cache: "/run/eksnode/instance.json", sources: []string{nodeconfig.UserDataSource, "file:///etc/eks/nodeadm.d/"}}}
			there, err := i.mayJoin(t.Context(), h, client, log)
			require.NoError(t, err)
			assert.True(t, there)
			assert.Greater(t, client.Attempts, 60, "Amazon's nodeadm makes 60 attempts")
			assert.Empty(t, *lines)
		})
	}
}

// DescribeCluster waits at least as long as Amazon Linux 2's script.
func TestClustersAreAwaitedAsByTheScript(t *testing.T) {
	for retries := range 8 {
		script, ours := 0.0, 0.0
		for i := range min(retries, 6) {
			script += float64(int(5) << (1 + i))
		}
		for i := range describeAttempts(retries) - 1 {
			ours += min(0.5*float64(int(1)<<min(i, 9)), 10)
		}
		assert.GreaterOrEqual(t, ours, script, "%d retries", retries)
	}
	assert.Equal(t, 1, describeAttempts(0))
}

// Only the NodeConfig's variables for the connection to AWS are set in the
// environment of eksnode itself.
func TestEnvironmentOfNodeConfigIsUsed(t *testing.T) {
	service := imdstest.Serve(imdstest.Typical())
	defer service.Close()
	var signed []string
	apis := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signed = append(signed, r.Header.Get("Authorization"))
		fmt.Fprintf(w, `{"cluster": {"status": "ACTIVE", "endpoint": "https://e", "certificateAuthority": {"data": %q}, "kubernetesNetworkConfig": {"serviceIpv4Cidr": "10.100.0.0/16"}}}`,
			base64.StdEncoding.EncodeToString([]byte("ca")))
	}))
	defer apis.Close()
	environment := map[string]string{
		"AWS_ENDPOINT_URL": apis.URL, "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "AKIANODE", "AWS_SECRET_ACCESS_KEY": "s",
		"no_proxy": "127.0.0.1", "EKSNODE_TEST_OTHER": "x",
	}
	for name := range environment {
		t.Setenv(name, "")
		require.NoError(t, os.Unsetenv(name)) // the test puts it back
	}
	aws, err := awsFor(metadata(t, service.URL), func(string) {})(t.Context(), environment)
	require.NoError(t, err)
	d, err := aws.DescribeCluster(t.Context(), "eu-west-1", "c", 0)
	require.NoError(t, err)
	assert.Equal(t, bootstrap.Described{Endpoint: "https://e", CA: []byte("ca"), IPv4CIDR: "10.100.0.0/16"}, d)
	require.Len(t, signed, 1)
	assert.Contains(t, signed[0], "Credential=AKIANODE/")
	assert.Contains(t, signed[0], "/eu-central-1/eks/aws4_request")
	assert.Empty(t, service.Requests())
	assert.Equal(t, "127.0.0.1", os.Getenv("no_proxy"))
	_, there := os.LookupEnv("EKSNODE_TEST_OTHER")
	assert.False(t, there)
}

const (
	cacheFile  = "/run/eks/nodeadm/config.json"
	cachedText = `{"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "boot": "this-boot",
"spec": {"cluster": {"name": "cached"}, "containerd": {}, "instance": {"localStorage": {}, "network": {}}, "kubelet": {"config": {"maxPods": 5}}}}`
	head = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: "
)

// The cases of amazon-eks-ami's nodeadm/test/e2e/cases/config-cache.
func TestCacheReplacesAMissingSource(t *testing.T) {
	const fallback = "using the NodeConfig in the cache " + cacheFile
	for name, c := range map[string]struct {
		cache, file, source string
		want, warning       string // want is the cluster's name
	}{
		"an empty folder":  {cachedText, "", "file:///etc/eks/nodeadm.d/", "cached", fallback},
		"a file that went": {cachedText, "", "file:///nope.yaml", "cached", fallback},
		"a source":         {cachedText, head + "{cluster: {name: read}}\n", "file:///etc/eks/nodeadm.d/", "read", ""},
		"a mistake":        {cachedText, head + "{foo: 1}\n", "file:///etc/eks/nodeadm.d/", "", ""},
		"no cache":         {"", "", "file:///etc/eks/nodeadm.d/", "", ""},
		"a damaged cache":  {"{", "", "file:///etc/eks/nodeadm.d/", "", ""},
		"an earlier boot":  {`{"boot": "earlier", "spec": {"cluster": {"name": "cached"}}}`, "", "file:///etc/eks/nodeadm.d/", "", ""},
		"another version":  {`{"boot": "this-boot", "spec": {"foo": 1}}`, "", "file:///etc/eks/nodeadm.d/", "", "reading the NodeConfig in the cache"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"/proc/sys/kernel/random/boot_id": "this-boot\n", "/etc/eks/nodeadm.d/.keep": ""}
			if c.cache != "" {
				files[cacheFile] = c.cache
			}
			if c.file != "" {
				files["/etc/eks/nodeadm.d/a.yaml"] = c.file
			}
			h, lines, log := booting(t, files)
			j := joining{cache: cacheFile, sources: []string{c.source}}
			config, _, err := j.resolve(t.Context(), h, nil, log)
			if c.want == "" {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				assert.Equal(t, c.want, config.Spec.Cluster.Name)
			}
			if c.warning == "" {
				assert.Empty(t, *lines)
				return
			}
			require.Len(t, *lines, 1)
			assert.Contains(t, (*lines)[0], c.warning)
		})
	}
}

// The run phase alone would start services with the earlier configuration.
func TestChangedNodeConfigRunsTheConfigPhase(t *testing.T) {
	_, lines, log := booting(t, nil)
	parse := func(text string) *nodeconfig.NodeConfig {
		c, err := nodeconfig.Decode([]byte(text))
		require.NoError(t, err)
		return c
	}
	cached := parse(head + "{kubelet: {config: {maxPods: 5}}}\n")
	i := initFlags{joining: joining{cache: cacheFile}}
	for _, c := range []struct {
		now  string
		want []bootstrap.Phase
	}{
		{"{kubelet: {config: {maxPods: 5}}}\n", []bootstrap.Phase{bootstrap.Config}},
		{"{kubelet: {config: {maxPods: 6}}}\n", []bootstrap.Phase{}},
	} {
		pick := bootstrap.Selection{Skip: []bootstrap.Phase{bootstrap.Config}}
		require.NoError(t, i.inStep(&pick, parse(head+c.now), cached, log))
		assert.Equal(t, c.want, pick.Skip)
	}
	assert.Equal(t, []string{"warning: the NodeConfig differs from the one in the cache " + cacheFile + ": the config phase is not skipped"}, *lines)
}
