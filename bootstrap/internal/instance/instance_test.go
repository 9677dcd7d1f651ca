package instance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/firstboot"
)

// table imitates EC2 and records the requests.
type table struct {
	name   string
	limits Limits
	err    error
	asked  []string
}

func (e *table) PrivateDNSName(_ context.Context, region, id string) (string, error) {
	e.asked = append(e.asked, "name of "+id+" in "+region)
	return e.name, e.err
}

func (e *table) InstanceLimits(_ context.Context, region, name string) (Limits, error) {
	e.asked = append(e.asked, "limits of "+name+" in "+region)
	return e.limits, e.err
}

func gather(t *testing.T, i imdstest.Instance, ec2 *table, want Wants) (Facts, []string, []string, error) {
	t.Helper()
	s := imdstest.Serve(i)
	t.Cleanup(s.Close)
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", s.URL)
	c, err := firstboot.OpenMetadata(t.Context())
	require.NoError(t, err)
	c.Attempts = 2
	f, warnings, err := Gather(t.Context(), c, ec2, want)
	return f, warnings, s.Requests(), err
}

func TestTypicalInstanceNeedsNoAPI(t *testing.T) {
	ec2 := &table{}
	f, warnings, requests, err := gather(t, imdstest.Typical(), ec2, Wants{PrivateDNSName: true, Limits: true})
	require.NoError(t, err)
	assert.Equal(t, Facts{
		ID: "i-0123456789abcdef0", Type: "m5.large", Region: "eu-west-1", Zone: "eu-west-1a", MAC: "02:00:00:00:00:01",
		PrivateDNSName: "ip-10-0-1-2.eu-west-1.compute.internal", Address: "10.0.1.2", Limits: Limits{ENIs: 3, IPsPerENI: 10},
	}, f)
	assert.Empty(t, warnings)
	assert.Empty(t, ec2.asked)
	assert.Equal(t, []string{"api/token", "dynamic/instance-identity/document", "meta-data/mac", "meta-data/local-ipv4", "meta-data/local-hostname"}, requests)
	assert.Equal(t, 29, f.MaxPods())
}

func TestOnlyNeededMetadataIsRequested(t *testing.T) {
	i := imdstest.Typical()
	i.IPv6 = "fd00::5\nfd00::6"
	i.VPCCIDRs = []string{"10.0.0.0/16", "100.64.0.0/16"}
	f, _, requests, err := gather(t, i, &table{}, Wants{IPv6: true, VPCNetworks: true, Domain: true})
	require.NoError(t, err)
	assert.Equal(t, "fd00::5", f.Address)
	assert.Equal(t, []string{"10.0.0.0/16", "100.64.0.0/16"}, f.VPCNetworks)
	assert.Equal(t, "amazonaws.com", f.Domain)
	assert.Empty(t, f.PrivateDNSName)
	assert.False(t, slices.Contains(requests, "meta-data/local-hostname"))
	assert.Equal(t, DefaultMaxPods, f.MaxPods())
}

func TestEC2NamesAreRecognized(t *testing.T) {
	for _, c := range []struct {
		region, name string
		own          bool
	}{
		{"eu-west-1", "ip-10-0-1-2.eu-west-1.compute.internal", true},
		{"eu-west-1", "i-0123456789abcdef0.eu-west-1.compute.internal", true},
		{"us-east-1", "ip-10-0-1-2.ec2.internal", true},
		{"us-east-1", "i-0123456789abcdef0.us-east-1.compute.internal", true},
		{"cn-north-1", "ip-10-0-1-2.cn-north-1.compute.internal", true},
		{"us-east-1", "ip-10-0-1-2.us-east-1.compute.internal", false},
		{"eu-west-1", "ip-10-0-1-2.ec2.internal", false},
		{"eu-west-1", "ip-10-0-1-2.example.com", false},
		{"eu-west-1", "ip-10-0-1-2", false},
		{"eu-west-1", "ip-10-0-1-3.eu-west-1.compute.internal", false},
		{"eu-west-1", "i-fff.eu-west-1.compute.internal", false},
		{"eu-west-1", "ip-x.eu-west-1.compute.internal", false},
	} {
		i := imdstest.Typical()
		i.Region, i.Hostname = c.region, c.name
		ec2 := &table{name: "from-ec2"}
		f, _, _, err := gather(t, i, ec2, Wants{PrivateDNSName: true})
		require.NoError(t, err)
		if c.own {
			assert.Equal(t, c.name, f.PrivateDNSName)
			assert.Empty(t, ec2.asked)
		} else {
			assert.Equal(t, "from-ec2", f.PrivateDNSName)
			assert.Equal(t, []string{"name of i-0123456789abcdef0 in " + c.region}, ec2.asked)
		}
	}
}

func TestLimitsOfUnknownTypesComeFromEC2(t *testing.T) {
	i := imdstest.Typical()
	i.Type = "z99.large"
	ec2 := &table{limits: Limits{ENIs: 4, IPsPerENI: 15}}
	f, warnings, _, err := gather(t, i, ec2, Wants{Limits: true})
	require.NoError(t, err)
	assert.Equal(t, 58, f.MaxPods())
	assert.Empty(t, warnings)
	assert.Equal(t, []string{"limits of z99.large in eu-west-1"}, ec2.asked)

	f, warnings, _, err = gather(t, i, &table{err: errors.New("not authorized")}, Wants{Limits: true})
	require.NoError(t, err)
	assert.Equal(t, DefaultMaxPods, f.MaxPods())
	assert.Equal(t, []string{"the instance type z99.large is unknown, so the node takes 110 pods: not authorized"}, warnings)
}

func TestSizesOfTypesComeFromEC2(t *testing.T) {
	ec2 := &table{limits: Limits{3, 10, 2, 8192}}
	f, warnings, _, err := gather(t, imdstest.Typical(), ec2, Wants{Limits: true, Size: true})
	require.NoError(t, err)
	assert.Empty(t, warnings)
	assert.Equal(t, Limits{3, 10, 2, 8192}, f.Limits)
	assert.Equal(t, []string{"limits of m5.large in eu-west-1"}, ec2.asked)

	f, warnings, _, err = gather(t, imdstest.Typical(), &table{err: errors.New("not authorized")}, Wants{Limits: true, Size: true})
	require.NoError(t, err)
	assert.Equal(t, []string{"the size of the instance type m5.large is unknown: not authorized"}, warnings)
	assert.Equal(t, 29, f.MaxPods(), "the built-in table has the other limits")
}

func TestMissingMetadataIsNamed(t *testing.T) {
	i := imdstest.Typical()
	_, _, _, err := gather(t, i, &table{}, Wants{IPv6: true})
	assert.ErrorContains(t, err, "the cluster is IPv6, but the instance's primary interface has no IPv6 address")
	i.IPv4 = "x"
	_, _, _, err = gather(t, i, &table{}, Wants{})
	assert.EqualError(t, err, `the metadata entry meta-data/local-ipv4 is not an address: "x"`)
	i = imdstest.Typical()
	i.Hostname = ""
	_, _, _, err = gather(t, i, &table{err: errors.New("denied")}, Wants{PrivateDNSName: true})
	assert.EqualError(t, err, "requesting the instance's private DNS name, which is the node's name, from EC2: denied")
}

// The values of amazon-eks-ami's eni-max-pods.txt.
func TestMaxPodsOfKnownTypes(t *testing.T) {
	for name, want := range map[string]int{
		"t3.nano": 4, "t3.medium": 17, "m5.large": 29, "m5.xlarge": 58, "m5.24xlarge": 737, "c5.metal": 737,
		"p4d.24xlarge": 737, "p5.48xlarge": 100, "m8g.medium": 8, "i4i.32xlarge": 737,
		// These types have two network cards. The VPC CNI uses the interfaces of the default
		// card only (its table and its eni-max-pods.txt, v1.23.2). amazon-eks-ami's nodeadm
		// counts the interfaces of both cards: 737 and 1178 pods.
		"i7ie.48xlarge": 394, "i7ie.metal-48xl": 394, "i8ge.48xlarge": 590, "i8ge.metal-48xl": 590,
	} {
		l, ok := LimitsOf(name)
		require.True(t, ok, name)
		assert.Equal(t, want, l.MaxPods(), name)
	}
}

// The types that only amazon-vpc-cni-k8s lists: amazon-eks-ami has them too
// (nodeadm, instance-info.jsonl, July 2026).
func TestTypesOfTheVPCCNITable(t *testing.T) {
	for name, want := range map[string]Limits{
		"bmn-sf1.metal": {ENIs: 15, IPsPerENI: 50}, "c5a.metal": {ENIs: 15, IPsPerENI: 50}, "c5ad.metal": {ENIs: 15, IPsPerENI: 50},
		"cr1.8xlarge": {ENIs: 8, IPsPerENI: 30}, "hs1.8xlarge": {ENIs: 8, IPsPerENI: 30},
		"hpc6a.48xlarge": {ENIs: 2, IPsPerENI: 50}, "hpc6id.32xlarge": {ENIs: 1, IPsPerENI: 50}, "hpc7a.12xlarge": {ENIs: 2, IPsPerENI: 50},
		"hpc7a.24xlarge": {ENIs: 2, IPsPerENI: 50}, "hpc7a.48xlarge": {ENIs: 2, IPsPerENI: 50}, "hpc7a.96xlarge": {ENIs: 2, IPsPerENI: 50},
		"hpc8a.96xlarge": {ENIs: 2, IPsPerENI: 50}, "trn2.3xlarge": {ENIs: 2, IPsPerENI: 15}, "trn2.48xlarge": {ENIs: 2, IPsPerENI: 50},
		"u-6tb1.metal": {ENIs: 5, IPsPerENI: 30}, "u-9tb1.metal": {ENIs: 5, IPsPerENI: 30}, "u-12tb1.metal": {ENIs: 5, IPsPerENI: 30},
		"u-18tb1.metal": {ENIs: 15, IPsPerENI: 50}, "u-24tb1.metal": {ENIs: 15, IPsPerENI: 50},
	} {
		l, ok := LimitsOf(name)
		require.True(t, ok, name)
		assert.Equal(t, want, l, name)
	}
}

func TestUnknownTypesHaveNoLimits(t *testing.T) {
	for _, name := range []string{"", "m5", "5.large", "m5.larg", "z99.large", "#", "# Generated", "2", "15"} {
		_, ok := LimitsOf(name)
		assert.False(t, ok, name)
	}
}

func TestTableIsComplete(t *testing.T) {
	types := 0
	for line := range strings.Lines(limits) {
		if line[0] == '#' {
			continue
		}
		for _, name := range strings.Fields(line)[2:] {
			types++
			l, ok := LimitsOf(name)
			assert.True(t, ok && l.MaxPods() > 2, name)
		}
	}
	assert.Greater(t, types, 1400)
}

// always is a metadata service with the same response to all requests.
type always string

func (a always) Get(context.Context, string) ([]byte, error) { return []byte(a), nil }

func TestInvalidIdentityDocumentIsRefused(t *testing.T) {
	id, err := ReadIdentity(t.Context(), always(`{"instanceId": "i-1", "instanceType": "m5.large", "region": "eu-west-1", "availabilityZone": "eu-west-1a", "more": 1}`))
	require.NoError(t, err)
	assert.Equal(t, Identity{InstanceID: "i-1", InstanceType: "m5.large", Region: "eu-west-1", AvailabilityZone: "eu-west-1a"}, id)
	for document, shown := range map[string]string{
		"{}": `"{}"`, "": `""`, `{"instanceId": 1}`: `"{\"instanceId\": 1}"`, "<html><body>captive portal</body></html>": `"<html><body>captive portal</body></html>"`,
		strings.Repeat("x", 100): `"` + strings.Repeat("x", 60) + `"`,
	} {
		_, err := ReadIdentity(t.Context(), always(document))
		assert.EqualError(t, err, "asking the instance metadata service for dynamic/instance-identity/document: unexpected content "+shown+": something else answers at the service's address")
	}
}

func TestMultiLineMetadataIsRefused(t *testing.T) {
	line, err := ReadLine(t.Context(), always(" 02:00:00:00:00:01\n"), "meta-data/mac")
	require.NoError(t, err)
	assert.Equal(t, "02:00:00:00:00:01", line)
	for _, text := range []string{"", "\n", "a\nb", "a\rb", "<html>", "a\x00"} {
		_, err := ReadLine(t.Context(), always(text), "meta-data/mac")
		assert.ErrorContains(t, err, "asking the instance metadata service for meta-data/mac: unexpected content ")
	}
}

func FuzzMetadata(f *testing.F) {
	for _, text := range []string{`{"instanceId": "i-1", "region": "eu-west-1", "availabilityZone": "eu-west-1a"}`, "{}", "[", "a\nb", "02:00:00:00:00:01", "10.0.0.1\n", "fd00::1\nfd00::2"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := ReadIdentity(t.Context(), always(text)); err == nil {
			assert.NotEmpty(t, id.InstanceID)
			assert.NotEmpty(t, id.Region)
		} else {
			assert.NotContains(t, err.Error(), "\n")
		}
		if line, err := ReadLine(t.Context(), always(text), "meta-data/mac"); err == nil {
			assert.NotContains(t, line, "\n")
		}
		if _, err := address(t.Context(), always(text), "", true); err != nil {
			assert.NotContains(t, err.Error(), "\n")
		}
	})
}
