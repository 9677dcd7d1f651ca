package firstboot

import (
	"encoding/base64"
	"encoding/pem"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
)

func tokenURL(t *testing.T, n *Node, region string) *url.URL {
	t.Helper()
	text, _, err := n.Token(t.Context(), region, "c")
	require.NoError(t, err)
	encoded, ok := strings.CutPrefix(text, "k8s-aws-v1.")
	require.True(t, ok)
	address, err := base64.RawURLEncoding.DecodeString(encoded)
	require.NoError(t, err)
	u, err := url.Parse(string(address))
	require.NoError(t, err)
	return u
}

// The environment selects the address of the metadata service.
func TestMetadataEndpoint(t *testing.T) {
	for name, c := range map[string]struct {
		environment map[string]string
		want        []string
	}{
		"none":                    {nil, []string{"169.254.169.254:80"}},
		"mode IPv4":               {map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE": "IPv4"}, []string{"169.254.169.254:80"}},
		"mode IPv6":               {map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE": "IPv6"}, []string{"[fd00:ec2::254]:80"}},
		"mode ipv6":               {map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE": "ipv6"}, []string{"[fd00:ec2::254]:80"}},
		"endpoint":                {map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://metadata.example:1338"}, []string{"metadata.example:1338"}},
		"endpoint, slash":         {map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://metadata.example:1338/"}, []string{"metadata.example:1338"}},
		"endpoint, IPv6":          {map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://[fd00::1]:1338"}, []string{"[fd00::1]:1338"}},
		"endpoint before mode":    {map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://[fd00::1]", "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE": "IPv4"}, []string{"[fd00::1]:80"}},
		"never through a proxy":   {map[string]string{"HTTP_PROXY": "http://proxy.example:3128", "HTTPS_PROXY": "http://proxy.example:3128", "http_proxy": "http://proxy.example:3128"}, []string{"169.254.169.254:80"}},
		"endpoint and a proxy":    {map[string]string{"HTTP_PROXY": "http://proxy.example:3128", "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://metadata.example"}, []string{"metadata.example:80"}},
		"shared configuration":    {map[string]string{"AWS_CONFIG_FILE": shared(t, "[default]\nec2_metadata_service_endpoint = http://shared.example\n")}, []string{"shared.example:80"}},
		"a mode that is shared":   {map[string]string{"AWS_CONFIG_FILE": shared(t, "[default]\nec2_metadata_service_endpoint_mode = IPv6\n")}, []string{"[fd00:ec2::254]:80"}},
		"endpoints of the APIs":   {map[string]string{"AWS_ENDPOINT_URL": "http://apis.example", "AWS_USE_DUALSTACK_ENDPOINT": "true", "AWS_USE_FIPS_ENDPOINT": "true"}, []string{"169.254.169.254:80"}},
		"version 1 is never used": {map[string]string{"AWS_EC2_METADATA_V1_DISABLED": "false"}, []string{"169.254.169.254:80"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := instanceAt(t)
			require.NoError(t, os.Unsetenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"))
			for k, v := range c.environment {
				t.Setenv(k, v)
			}
			var addresses []string
			m, err := openMetadata(t.Context(), dialing(s.Listener.Addr().String(), "", &addresses))
			require.NoError(t, err)
			mac, err := m.Get(t.Context(), "meta-data/mac")
			require.NoError(t, err)
			assert.Equal(t, "02:00:00:00:00:01", string(mac))
			assert.Equal(t, c.want, addresses)
			assert.Equal(t, []string{"api/token", "meta-data/mac"}, s.Requests())
		})
	}
}

func shared(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestWrongMetadataSettings(t *testing.T) {
	for name, c := range map[string]struct{ variable, value, want string }{
		"no address": {"AWS_EC2_METADATA_SERVICE_ENDPOINT", "metadata.example:80", `AWS_EC2_METADATA_SERVICE_ENDPOINT: "metadata.example:80" is not an address such as http://169.254.169.254`},
		"no scheme":  {"AWS_EC2_METADATA_SERVICE_ENDPOINT", "metadata", `AWS_EC2_METADATA_SERVICE_ENDPOINT: "metadata" is not an address such as http://169.254.169.254`},
		"no mode":    {"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv5", "reading the AWS configuration: "},
		"no bundle":  {"AWS_CA_BUNDLE", "/nonexistent/bundle.pem", "reading the AWS configuration: "},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t)
			t.Setenv(c.variable, c.value)
			_, err := OpenMetadata(t.Context())
			require.ErrorContains(t, err, c.want)
			assert.Contains(t, err.Error(), c.value)
		})
	}
	instanceAt(t)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	_, err := open(t).Get(t.Context(), "meta-data/mac")
	assert.ErrorContains(t, err, "asking the instance metadata service for meta-data/mac: ")
	assert.ErrorContains(t, err, `"AWS_EC2_METADATA_DISABLED" environment variable`)
}

// The environment selects the endpoints, as a proxy sees them. When an endpoint
// cannot be reached, the endpoint with IPv6 addresses follows, unless the
// environment selects one.
func TestAPIEndpoints(t *testing.T) {
	for name, c := range map[string]struct {
		environment map[string]string
		region      string
		ec2, eks    []string
		sts         string
	}{
		"none": {nil, "eu-west-1", []string{"ec2.eu-west-1.amazonaws.com:443", "ec2.eu-west-1.api.aws:443"},
			[]string{"eks.eu-west-1.amazonaws.com:443", "eks.eu-west-1.api.aws:443"}, "sts.eu-west-1.amazonaws.com"},
		"China": {nil, "cn-north-1", []string{"ec2.cn-north-1.amazonaws.com.cn:443", "ec2.cn-north-1.api.amazonwebservices.com.cn:443"},
			[]string{"eks.cn-north-1.amazonaws.com.cn:443", "eks.cn-north-1.api.amazonwebservices.com.cn:443"}, "sts.cn-north-1.amazonaws.com.cn"},
		"an isolated partition": {nil, "us-iso-east-1", []string{"ec2.us-iso-east-1.c2s.ic.gov:443", "ec2.us-iso-east-1.api.aws.ic.gov:443"}, nil, "sts.us-iso-east-1.c2s.ic.gov"},
		"FIPS": {map[string]string{"AWS_USE_FIPS_ENDPOINT": "true"}, "us-east-1", []string{"ec2-fips.us-east-1.amazonaws.com:443", "ec2-fips.us-east-1.amazonaws.com:443"},
			[]string{"fips.eks.us-east-1.amazonaws.com:443", "fips.eks.us-east-1.amazonaws.com:443"}, "sts-fips.us-east-1.amazonaws.com"},
		"dual stack": {map[string]string{"AWS_USE_DUALSTACK_ENDPOINT": "true"}, "eu-west-1", []string{"ec2.eu-west-1.api.aws:443", "ec2.eu-west-1.api.aws:443"},
			[]string{"eks.eu-west-1.api.aws:443", "eks.eu-west-1.api.aws:443"}, "sts.eu-west-1.api.aws"},
		"both": {map[string]string{"AWS_USE_DUALSTACK_ENDPOINT": "true", "AWS_USE_FIPS_ENDPOINT": "true"}, "us-east-1",
			[]string{"ec2-fips.us-east-1.api.aws:443", "ec2-fips.us-east-1.api.aws:443"}, nil, "sts-fips.us-east-1.api.aws"},
		"a region":         {map[string]string{"AWS_REGION": "eu-central-1"}, "eu-west-1", []string{"ec2.eu-central-1.amazonaws.com:443", "ec2.eu-central-1.api.aws:443"}, nil, "sts.eu-west-1.amazonaws.com"},
		"a default region": {map[string]string{"AWS_DEFAULT_REGION": "eu-central-1"}, "eu-west-1", []string{"ec2.eu-central-1.amazonaws.com:443", "ec2.eu-central-1.api.aws:443"}, nil, "sts.eu-west-1.amazonaws.com"},
		"a shared region": {map[string]string{"AWS_CONFIG_FILE": shared(t, "[default]\nregion = eu-central-1\n")}, "eu-west-1",
			[]string{"ec2.eu-central-1.amazonaws.com:443", "ec2.eu-central-1.api.aws:443"}, nil, "sts.eu-west-1.amazonaws.com"},
	} {
		t.Run(name, func(t *testing.T) {
			instanceAt(t)
			t.Setenv("AWS_MAX_ATTEMPTS", "2")
			for k, v := range c.environment {
				t.Setenv(k, v)
			}
			p, address := serveProxy(t, "")
			t.Setenv("HTTPS_PROXY", address)
			_, err := node(t).PrivateDNSName(t.Context(), c.region, "i-1")
			require.ErrorContains(t, err, "; the node needs a route to this address: a NAT gateway, an endpoint in its VPC or a proxy")
			assert.Equal(t, c.ec2, p.asked())
			assert.Equal(t, c.sts, tokenURL(t, node(t), c.region).Host)
			if c.eks == nil {
				return
			}
			_, err = node(t).DescribeCluster(t.Context(), c.region, "c", 2)
			require.Error(t, err)
			assert.Equal(t, c.eks, p.asked()[len(c.ec2):])
		})
	}
}

func TestEndpointURLs(t *testing.T) {
	for name, c := range map[string]struct {
		variables []string
		ec2, eks  bool
		sts       bool
	}{
		"all": {[]string{"AWS_ENDPOINT_URL"}, true, true, true},
		"EC2": {[]string{"AWS_ENDPOINT_URL_EC2"}, true, false, false},
		"EKS": {[]string{"AWS_ENDPOINT_URL_EKS"}, false, true, false},
		"STS": {[]string{"AWS_ENDPOINT_URL_STS"}, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			instanceAt(t)
			a, address := serveAWS(t)
			p, proxy := serveProxy(t, "")
			t.Setenv("HTTPS_PROXY", proxy)
			for _, variable := range c.variables {
				t.Setenv(variable, address)
			}
			t.Setenv("AWS_MAX_ATTEMPTS", "1")
			_, errEC2 := node(t).PrivateDNSName(t.Context(), "eu-west-1", "i-1")
			_, errEKS := node(t).DescribeCluster(t.Context(), "eu-west-1", "c", 1)
			assert.Equal(t, []bool{c.ec2, c.eks}, []bool{errEC2 == nil, errEKS == nil}, "%v %v", errEC2, errEKS)
			assert.Equal(t, c.sts, "http://"+tokenURL(t, node(t), "eu-west-1").Host == address)
			assert.Len(t, p.asked(), 2-len(a.requests()), "the others are AWS's own")
		})
	}
	instanceAt(t)
	a, address := serveAWS(t)
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	t.Setenv("AWS_ENDPOINT_URL_EC2", address)
	_, err := node(t).PrivateDNSName(t.Context(), "eu-west-1", "i-1")
	require.NoError(t, err, "the service's own wins")
	assert.Len(t, a.requests(), 1)
	t.Setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
	assert.Equal(t, "sts.eu-west-1.amazonaws.com", tokenURL(t, node(t), "eu-west-1").Host)
}

// The certificates of the bundle are trusted, also through a proxy.
func TestCABundle(t *testing.T) {
	instanceAt(t)
	a := &double{status: "ACTIVE"}
	s := httptest.NewTLSServer(a)
	defer s.Close()
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	t.Setenv("AWS_ENDPOINT_URL_EC2", s.URL)
	_, err := node(t).PrivateDNSName(t.Context(), "eu-west-1", "i-1")
	require.ErrorContains(t, err, "x509: certificate signed by unknown authority")

	bundle := shared(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	t.Setenv("AWS_CA_BUNDLE", bundle)
	name, err := node(t).PrivateDNSName(t.Context(), "eu-west-1", "i-1")
	require.NoError(t, err)
	assert.Equal(t, "name-of-i-1", name)

	p, address := serveProxy(t, s.Listener.Addr().String())
	t.Setenv("HTTPS_PROXY", address)
	t.Setenv("AWS_ENDPOINT_URL_EC2", "https://example.com") // httptest's certificate is for this name
	_, err = node(t).PrivateDNSName(t.Context(), "eu-west-1", "i-1")
	require.NoError(t, err)
	assert.Equal(t, []string{"example.com:443"}, p.asked())
}

func TestProxies(t *testing.T) {
	for name, c := range map[string]struct {
		environment map[string]string // PROXY means the proxy's address
		endpoint    string
		proxied     bool
	}{
		"HTTPS_PROXY":                 {map[string]string{"HTTPS_PROXY": "PROXY"}, "https://ec2.example:1", true},
		"https_proxy":                 {map[string]string{"https_proxy": "PROXY"}, "https://ec2.example:1", true},
		"HTTP_PROXY":                  {map[string]string{"HTTP_PROXY": "PROXY"}, "http://ec2.example:1", true},
		"HTTP_PROXY is not for https": {map[string]string{"HTTP_PROXY": "PROXY"}, "https://127.0.0.2:1", false},
		"NO_PROXY, a host":            {map[string]string{"HTTPS_PROXY": "PROXY", "NO_PROXY": "a.example,ec2.invalid"}, "https://ec2.invalid:1", false},
		"NO_PROXY, a domain":          {map[string]string{"HTTPS_PROXY": "PROXY", "no_proxy": ".invalid"}, "https://ec2.invalid:1", false},
		"NO_PROXY, a network":         {map[string]string{"HTTPS_PROXY": "PROXY", "NO_PROXY": "192.0.2.0/24,127.0.0.0/8"}, "https://127.0.0.2:1", false},
		"NO_PROXY, all":               {map[string]string{"HTTPS_PROXY": "PROXY", "NO_PROXY": "*"}, "https://ec2.invalid:1", false},
	} {
		t.Run(name, func(t *testing.T) {
			instanceAt(t)
			p, address := serveProxy(t, "")
			for k, v := range c.environment {
				t.Setenv(k, strings.ReplaceAll(v, "PROXY", address))
			}
			t.Setenv("AWS_ENDPOINT_URL_EC2", c.endpoint)
			t.Setenv("AWS_MAX_ATTEMPTS", "1")
			_, err := node(t).PrivateDNSName(t.Context(), "eu-west-1", "i-1")
			require.Error(t, err)
			assert.Equal(t, c.proxied, len(p.asked()) > 0, "%v %v", p.asked(), err)
		})
	}
}

// With credentials in the environment, the node does not read the role's from the
// metadata service.
func TestOrderOfCredentials(t *testing.T) {
	const entry = "meta-data/iam/security-credentials/"
	for name, c := range map[string]struct {
		environment map[string]string
		want        string
	}{
		"the role's":        {nil, "ASIAFAKE"},
		"the environment's": {map[string]string{"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "secret"}, "AKIAENV"},
		"with a session":    {map[string]string{"AWS_ACCESS_KEY_ID": "ASIAENV", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "session"}, "ASIAENV"},
		"a profile's":       {map[string]string{"AWS_PROFILE": "p", "AWS_SHARED_CREDENTIALS_FILE": shared(t, "[p]\naws_access_key_id = AKIASHARED\naws_secret_access_key = s\n")}, "AKIASHARED"},
	} {
		t.Run(name, func(t *testing.T) {
			s := instanceAt(t)
			a, address := serveAWS(t)
			t.Setenv("AWS_ENDPOINT_URL", address)
			for k, v := range c.environment {
				t.Setenv(k, v)
			}
			n := node(t)
			_, err := n.PrivateDNSName(t.Context(), "eu-west-1", "i-1")
			require.NoError(t, err)
			_, err = n.DescribeCluster(t.Context(), "eu-west-1", "c", 1)
			require.NoError(t, err)
			assert.Equal(t, []string{"DescribeInstances by " + c.want + " in eu-west-1", "DescribeCluster c by " + c.want + " in eu-west-1"}, a.requests())
			assert.Contains(t, tokenURL(t, n, "eu-west-1").Query().Get("X-Amz-Credential"), c.want+"/")
			var want []string
			if c.environment == nil {
				want = []string{"api/token", entry, entry + "node"}
			}
			assert.Equal(t, want, s.Requests(), "one lookup for all requests")
		})
	}
}

func TestTokensAreForOneCluster(t *testing.T) {
	i := imdstest.Typical()
	instanceAt(t)
	u := tokenURL(t, node(t), i.Region)
	q := u.Query()
	assert.Equal(t, "https", u.Scheme)
	assert.Equal(t, "/", u.Path)
	assert.Equal(t, "host;x-k8s-aws-id", q.Get("X-Amz-SignedHeaders"))
	assert.Equal(t, []string{"GetCallerIdentity", "2011-06-15", "60", "session"},
		[]string{q.Get("Action"), q.Get("Version"), q.Get("X-Amz-Expires"), q.Get("X-Amz-Security-Token")})
}
